/* Numbers of sums: scale * sum; channels lie on the last axis. */

struct dequantize_sums {
  int32_t rows, channels;
  int32_t per_channel; /* 1: every channel has its own scale; 0: the first serves all */
  const float* scale;
};

static void dequantize_sums(const struct dequantize_sums* l, const int32_t* input, float* output) {
  int32_t row, channel;

  for (row = 0; row < l->rows; row++) {
    for (channel = 0; channel < l->channels; channel++) {
      *output++ = l->scale[l->per_channel ? channel : 0] * (float)*input++;
    }
  }
}
