/* Sums become codes; channels lie on the last axis. */

struct requantize {
  int32_t rows, channels;
  struct scaling scaling;
};

static void requantize(const struct requantize* l, const int32_t* input, int8_t* output) {
  int32_t row, channel;

  for (row = 0; row < l->rows; row++) {
    for (channel = 0; channel < l->channels; channel++) {
      *output++ = (int8_t)code_of(&l->scaling, channel, *input++);
    }
  }
}
