/* The same of tensors of one shape by CMSIS-NN; anything but 0: it refused. */
static int multiply_by_cmsis_nn(const struct multiply* l, const int8_t* a, const int8_t* b, int8_t* output) {
#ifdef CALIB8_CMSIS_NN
  (void)multiply; /* it is what runs without CMSIS-NN */
  return arm_elementwise_mul_s8(a, b, -l->left_zero, -l->right_zero, output, l->scaling.zero,
                                l->scaling.multiplier[0], l->scaling.shift[0], l->scaling.low,
                                l->scaling.high, l->pair.size[3]) != ARM_CMSIS_NN_SUCCESS;
#else
  multiply(l, a, b, output);
  return 0;
#endif
}
