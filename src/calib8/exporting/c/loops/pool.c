/* Windows over images [n, rows, columns, channels]; what lies outside of the image is no part of a window. */

struct pool {
  int32_t images, in_rows, in_columns, channels;
  int32_t out_rows, out_columns;
  int32_t rows, columns; /* of a window */
  int32_t stride_rows, stride_columns, dilation_rows, dilation_columns;
  int32_t top, left, bottom, right; /* padding */
  int32_t low, high;
};
