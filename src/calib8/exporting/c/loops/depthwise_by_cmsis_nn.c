/* The same by CMSIS-NN; anything but 0: it refused, or wants more scratch than was planned. */
static int depthwise_by_cmsis_nn(const struct depthwise* l, const int8_t* input, int8_t* output,
                                 void* scratch, int32_t size) {
#ifdef CALIB8_CMSIS_NN
  const cmsis_nn_context context = {scratch, size};
  const cmsis_nn_dw_conv_params params = {-l->in_zero,
                                          l->scaling.zero,
                                          l->out_channels / l->in_channels,
                                          {l->stride_columns, l->stride_rows},
                                          {l->left, l->top},
                                          {l->dilation_columns, l->dilation_rows},
                                          {l->scaling.low, l->scaling.high}};
  const cmsis_nn_per_channel_quant_params scaling = {(int32_t*)(uintptr_t)l->scaling.multiplier,
                                                     (int32_t*)(uintptr_t)l->scaling.shift};
  const cmsis_nn_dims in = {l->images, l->in_rows, l->in_columns, l->in_channels};
  const cmsis_nn_dims filter = {1, l->rows, l->columns, l->out_channels};
  const cmsis_nn_dims bias = {1, 1, 1, l->out_channels};
  const cmsis_nn_dims out = {l->images, l->out_rows, l->out_columns, l->out_channels};

  (void)depthwise; /* it is what runs without CMSIS-NN */
  if (arm_depthwise_conv_wrapper_s8_get_buffer_size(&params, &in, &filter, &out) > size) {
    return 1;
  }
  return arm_depthwise_conv_wrapper_s8(&context, &params, &scaling, &in, input, &filter, l->weight, &bias,
                                       l->bias, &out, output) != ARM_CMSIS_NN_SUCCESS;
#else
  (void)scratch;
  (void)size;
  depthwise(l, input, output);
  return 0;
#endif
}
