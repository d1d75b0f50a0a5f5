/* Largest code of a window. */

static int32_t largest_in_window(const struct pool* l, const int8_t* image, int32_t row, int32_t column,
                                 int32_t channel) {
  int32_t largest = INT8_MIN;
  int32_t i, j;

  for (i = 0; i < l->rows; i++) {
    const int32_t y = row * l->stride_rows - l->top + i * l->dilation_rows;
    for (j = 0; j < l->columns; j++) {
      const int32_t x = column * l->stride_columns - l->left + j * l->dilation_columns;
      if (y >= 0 && y < l->in_rows && x >= 0 && x < l->in_columns) {
        const int32_t code =
            image[((size_t)y * (size_t)l->in_columns + (size_t)x) * (size_t)l->channels + (size_t)channel];
        largest = code > largest ? code : largest;
      }
    }
  }
  return largest;
}

static void max_pool(const struct pool* l, const int8_t* input, int8_t* output) {
  const size_t image_size = (size_t)l->in_rows * (size_t)l->in_columns * (size_t)l->channels;
  int32_t image, row, column, channel;

  for (image = 0; image < l->images; image++, input += image_size) {
    for (row = 0; row < l->out_rows; row++) {
      for (column = 0; column < l->out_columns; column++) {
        for (channel = 0; channel < l->channels; channel++) {
          *output++ = (int8_t)largest_in_window(l, input, row, column, channel);
        }
      }
    }
  }
}
