/* The same by CMSIS-NN; anything but 0: it refused. */
static int max_pool_by_cmsis_nn(const struct pool* l, const int8_t* input, int8_t* output) {
#ifdef CALIB8_CMSIS_NN
  (void)max_pool; /* it is what runs without CMSIS-NN */
  return pool_by_cmsis_nn(arm_max_pool_s8, l, input, output, NULL, 0);
#else
  max_pool(l, input, output);
  return 0;
#endif
}
