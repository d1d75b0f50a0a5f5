/* Numbers of sums: scale * sum; channels lie on the last axis of the sums. */

struct dequantize_sums {
  struct walk walk;
  int32_t channels;
  int32_t per_channel; /* 1: every channel has its own scale; 0: the first serves all */
  const float* scale;
};

static void dequantize_sums(const struct dequantize_sums* l, const int32_t* input, float* output) {
  const struct walk* w = &l->walk;
  int32_t i, j, k, m, n;

  for (i = 0; i < w->size[0]; i++) {
    for (j = 0; j < w->size[1]; j++) {
      for (k = 0; k < w->size[2]; k++) {
        for (m = 0; m < w->size[3]; m++) {
          const int32_t from = i * w->step[0] + j * w->step[1] + k * w->step[2] + m * w->step[3];
          for (n = 0; n < w->size[4]; n++) {
            const int32_t at = from + n * w->step[4];
            *output++ = l->scale[l->per_channel ? at % l->channels : 0] * (float)input[at];
          }
        }
      }
    }
  }
}
