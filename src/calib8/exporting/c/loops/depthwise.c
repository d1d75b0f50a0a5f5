/* Depthwise convolution: filters [rows, columns, out_channels]; each channel makes out_channels /
 * in_channels. */

struct depthwise {
  int32_t images, in_rows, in_columns, in_channels;
  int32_t out_rows, out_columns, out_channels;
  int32_t rows, columns; /* of the filters */
  int32_t stride_rows, stride_columns, dilation_rows, dilation_columns;
  int32_t top, left; /* padding, which holds the zero point; what is below and to the right follows */
  int32_t in_zero;
  const int8_t* weight;
  const int32_t* bias;
  struct scaling scaling; /* without multiplier: the sums themselves are written, int32 */
};

static int32_t depthwise_sum(const struct depthwise* l, const int8_t* image, int32_t row, int32_t column,
                             int32_t channel) {
  const int32_t from = channel / (l->out_channels / l->in_channels);
  int32_t sum = l->bias[channel];
  int32_t i, j;

  for (i = 0; i < l->rows; i++) {
    const int32_t y = row * l->stride_rows - l->top + i * l->dilation_rows;
    if (y < 0 || y >= l->in_rows) {
      continue;
    }
    for (j = 0; j < l->columns; j++) {
      const int32_t x = column * l->stride_columns - l->left + j * l->dilation_columns;
      if (x >= 0 && x < l->in_columns) {
        const size_t pixel = (size_t)y * (size_t)l->in_columns + (size_t)x;
        sum += (image[pixel * (size_t)l->in_channels + (size_t)from] - l->in_zero) *
               l->weight[(size_t)(i * l->columns + j) * (size_t)l->out_channels + (size_t)channel];
      }
    }
  }
  return sum;
}

static void depthwise(const struct depthwise* l, const int8_t* input, void* output) {
  const size_t image_size = (size_t)l->in_rows * (size_t)l->in_columns * (size_t)l->in_channels;
  size_t at = 0;
  int32_t image, row, column, channel;

  for (image = 0; image < l->images; image++, input += image_size) {
    for (row = 0; row < l->out_rows; row++) {
      for (column = 0; column < l->out_columns; column++) {
        for (channel = 0; channel < l->out_channels; channel++, at++) {
          const int32_t sum = depthwise_sum(l, input, row, column, channel);
          if (l->scaling.multiplier == NULL) {
            ((int32_t*)output)[at] = sum;
          } else {
            ((int8_t*)output)[at] = (int8_t)code_of(&l->scaling, channel, sum);
          }
        }
      }
    }
  }
}
