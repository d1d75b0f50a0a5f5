/* Fully connected layer: rows of in_size codes, weights [out_size, in_size]. */

struct dense {
  int32_t rows, in_size, out_size;
  int32_t in_zero;
  const int8_t* weight;
  const int32_t* bias;
  struct scaling scaling; /* without multiplier: the sums themselves are written, int32 */
};

static void dense(const struct dense* l, const int8_t* input, void* output) {
  size_t at = 0;
  int32_t row, channel, i;

  for (row = 0; row < l->rows; row++, input += l->in_size) {
    const int8_t* weight = l->weight;
    for (channel = 0; channel < l->out_size; channel++, at++, weight += l->in_size) {
      int32_t sum = l->bias[channel];
      for (i = 0; i < l->in_size; i++) {
        sum += (input[i] - l->in_zero) * weight[i];
      }
      if (l->scaling.multiplier == NULL) {
        ((int32_t*)output)[at] = sum;
      } else {
        ((int8_t*)output)[at] = (int8_t)code_of(&l->scaling, channel, sum);
      }
    }
  }
}
