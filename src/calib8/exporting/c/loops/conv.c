/* Convolution: images [n, rows, columns, channels], filters [out_channels, rows, columns, channels / groups].
 */

struct conv {
  int32_t images, in_rows, in_columns, in_channels;
  int32_t out_rows, out_columns, out_channels;
  int32_t rows, columns, groups; /* of the filters */
  int32_t stride_rows, stride_columns, dilation_rows, dilation_columns;
  int32_t top, left; /* padding, which holds the zero point; what is below and to the right follows */
  int32_t in_zero;
  const int8_t* weight;
  const int32_t* bias;
  struct scaling scaling; /* without multiplier: the sums themselves are written, int32 */
};

static int32_t conv_sum(const struct conv* l, const int8_t* image, int32_t row, int32_t column,
                        int32_t channel) {
  const int32_t depth = l->in_channels / l->groups;
  const int32_t first = channel / (l->out_channels / l->groups) * depth;
  const int8_t* weight = l->weight + (size_t)channel * (size_t)(l->rows * l->columns * depth);
  int32_t sum = l->bias[channel];
  int32_t i, j, c;

  for (i = 0; i < l->rows; i++) {
    const int32_t y = row * l->stride_rows - l->top + i * l->dilation_rows;
    for (j = 0; j < l->columns; j++, weight += depth) {
      const int32_t x = column * l->stride_columns - l->left + j * l->dilation_columns;
      const int8_t* pixel;
      if (y < 0 || y >= l->in_rows || x < 0 || x >= l->in_columns) {
        continue;
      }
      pixel = image + ((size_t)y * (size_t)l->in_columns + (size_t)x) * (size_t)l->in_channels + first;
      for (c = 0; c < depth; c++) {
        sum += (pixel[c] - l->in_zero) * weight[c];
      }
    }
  }
  return sum;
}

static void conv(const struct conv* l, const int8_t* input, void* output) {
  const size_t image_size = (size_t)l->in_rows * (size_t)l->in_columns * (size_t)l->in_channels;
  size_t at = 0;
  int32_t image, row, column, channel;

  for (image = 0; image < l->images; image++, input += image_size) {
    for (row = 0; row < l->out_rows; row++) {
      for (column = 0; column < l->out_columns; column++) {
        for (channel = 0; channel < l->out_channels; channel++, at++) {
          const int32_t sum = conv_sum(l, input, row, column, channel);
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
