/* Numbers of codes: scale * (code - zero). */

struct dequantize {
  struct walk walk;
  float scale;
  int32_t zero;
};

static void dequantize(const struct dequantize* l, const int8_t* input, float* output) {
  const struct walk* w = &l->walk;
  int32_t i, j, k, m, n;

  for (i = 0; i < w->size[0]; i++) {
    for (j = 0; j < w->size[1]; j++) {
      for (k = 0; k < w->size[2]; k++) {
        for (m = 0; m < w->size[3]; m++) {
          const int8_t* from = input + i * w->step[0] + j * w->step[1] + k * w->step[2] + m * w->step[3];
          for (n = 0; n < w->size[4]; n++) {
            *output++ = l->scale * (float)(from[n * w->step[4]] - l->zero);
          }
        }
      }
    }
  }
}
