/* The same by CMSIS-NN; anything but 0: it refused, or wants more scratch than was planned. */
static int average_pool_by_cmsis_nn(const struct average_pool* l, const int8_t* input, int8_t* output,
                                    void* scratch, int32_t size) {
#ifdef CALIB8_CMSIS_NN
  (void)average_pool; /* it is what runs without CMSIS-NN */
  if (arm_avgpool_s8_get_buffer_size(l->pool.out_columns, l->pool.channels) > size) {
    return 1;
  }
  return pool_by_cmsis_nn(arm_avgpool_s8, &l->pool, input, output, scratch, size);
#else
  (void)scratch;
  (void)size;
  average_pool(l, input, output);
  return 0;
#endif
}
