#ifdef CALIB8_CMSIS_NN
typedef arm_cmsis_nn_status (*pool_of_cmsis_nn)(const cmsis_nn_context* context,
                                                const cmsis_nn_pool_params* params, const cmsis_nn_dims* in,
                                                const int8_t* input, const cmsis_nn_dims* window,
                                                const cmsis_nn_dims* out, int8_t* output);

static int pool_by_cmsis_nn(pool_of_cmsis_nn function, const struct pool* l, const int8_t* input,
                            int8_t* output, void* scratch, int32_t size) {
  const cmsis_nn_context context = {scratch, size};
  const cmsis_nn_pool_params params = {
      {l->stride_columns, l->stride_rows}, {l->left, l->top}, {l->low, l->high}};
  const cmsis_nn_dims in = {l->images, l->in_rows, l->in_columns, l->channels};
  const cmsis_nn_dims window = {1, l->rows, l->columns, 1};
  const cmsis_nn_dims out = {l->images, l->out_rows, l->out_columns, l->channels};

  return function(&context, &params, &in, input, &window, &out, output) != ARM_CMSIS_NN_SUCCESS;
}
#endif
