/* Images of another size, by picking rows and columns; a pixel is some bytes. */

struct nearest {
  int32_t images, in_rows, in_columns, pixel, out_rows, out_columns;
  const int32_t *rows, *columns; /* of the input */
};

static void nearest(const struct nearest* l, const void* input, void* output) {
  const char* in = input;
  char* out = output;
  int32_t image, row, column;

  for (image = 0; image < l->images; image++, in += l->in_rows * l->in_columns * l->pixel) {
    for (row = 0; row < l->out_rows; row++) {
      for (column = 0; column < l->out_columns; column++, out += l->pixel) {
        memcpy(out, in + (l->rows[row] * l->in_columns + l->columns[column]) * l->pixel, (size_t)l->pixel);
      }
    }
  }
}
