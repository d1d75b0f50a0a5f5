/* Mean of a window: of the codes themselves, ties away from zero, or rescaled by the number of codes. */

struct average_pool {
  struct pool pool;
  int32_t pads_count; /* 1: padding is part of a window, as real 0 */
  int32_t in_zero;
  int32_t code_zero;      /* added to codes before their mean is taken, and taken off again */
  struct scaling scaling; /* entry n - 1 for n codes; without multiplier: the mean of the codes */
};

static int32_t overlap(int32_t first, int32_t length, int32_t low, int32_t high) {
  const int32_t begin = first > low ? first : low;
  const int32_t end = first + length < high ? first + length : high;

  return end > begin ? end - begin : 0;
}

static int32_t mean_of_codes(const struct average_pool* l, int32_t sum, int32_t count) {
  const int32_t codes = sum + (l->in_zero + l->code_zero) * count;
  const int32_t half = count / 2;
  const int32_t mean = codes < 0 ? -((half - codes) / count) : (codes + half) / count;

  return clamped(mean - l->code_zero, l->pool.low, l->pool.high);
}

static int32_t mean_in_window(const struct average_pool* l, const int8_t* image, int32_t row, int32_t column,
                              int32_t channel) {
  const struct pool* p = &l->pool;
  const int32_t first_row = row * p->stride_rows - p->top,
                first_column = column * p->stride_columns - p->left;
  int32_t count, sum = 0;
  int32_t y, x;

  for (y = first_row; y < first_row + p->rows; y++) {
    for (x = first_column; x < first_column + p->columns; x++) {
      if (y >= 0 && y < p->in_rows && x >= 0 && x < p->in_columns) {
        sum +=
            image[((size_t)y * (size_t)p->in_columns + (size_t)x) * (size_t)p->channels + (size_t)channel] -
            l->in_zero;
      }
    }
  }
  if (l->pads_count) {
    count = overlap(first_row, p->rows, -p->top, p->in_rows + p->bottom) *
            overlap(first_column, p->columns, -p->left, p->in_columns + p->right);
  } else {
    count = overlap(first_row, p->rows, 0, p->in_rows) * overlap(first_column, p->columns, 0, p->in_columns);
  }
  count = count > 1 ? count : 1;
  return l->scaling.multiplier == NULL ? mean_of_codes(l, sum, count) : code_of(&l->scaling, count - 1, sum);
}

static void average_pool(const struct average_pool* l, const int8_t* input, int8_t* output) {
  const struct pool* p = &l->pool;
  const size_t image_size = (size_t)p->in_rows * (size_t)p->in_columns * (size_t)p->channels;
  int32_t image, row, column, channel;

  for (image = 0; image < p->images; image++, input += image_size) {
    for (row = 0; row < p->out_rows; row++) {
      for (column = 0; column < p->out_columns; column++) {
        for (channel = 0; channel < p->channels; channel++) {
          *output++ = (int8_t)mean_in_window(l, input, row, column, channel);
        }
      }
    }
  }
}
