/* The same by CMSIS-NN. */
static int softmax_fixed_by_cmsis_nn(const struct softmax_fixed* l, const int8_t* input, int8_t* output) {
#ifdef CALIB8_CMSIS_NN
  (void)softmax_fixed; /* it is what runs without CMSIS-NN */
  arm_softmax_s8(input, l->rows, l->size, l->multiplier, l->shift, l->diff_min, output);
#else
  softmax_fixed(l, input, output);
#endif
  return 0;
}
