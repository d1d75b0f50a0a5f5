/* The same of tensors of one shape by CMSIS-NN; anything but 0: it refused. */
static int add_by_cmsis_nn(const struct add* l, const int8_t* a, const int8_t* b, int8_t* output) {
#ifdef CALIB8_CMSIS_NN
  (void)add; /* it is what runs without CMSIS-NN */
  return arm_elementwise_add_s8(a, b, -l->left_zero, l->left_multiplier, l->left_shift, -l->right_zero,
                                l->right_multiplier, l->right_shift, l->gained, output, l->zero,
                                l->multiplier, l->shift, l->low, l->high,
                                l->pair.size[3]) != ARM_CMSIS_NN_SUCCESS;
#else
  add(l, a, b, output);
  return 0;
#endif
}
