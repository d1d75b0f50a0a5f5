/* Codes of numbers: round(x / scale) + zero, ties to even or away from zero; not-a-number is the lowest code.
 */

struct quantize {
  struct walk walk;
  float scale;
  int32_t zero;
  int32_t ties_to_even;
};

static int8_t quantized(const struct quantize* l, float x) {
  const float ratio = x / l->scale;
  int32_t whole;
  float rest;

  if (!(ratio > (float)(INT8_MIN - l->zero))) {
    return INT8_MIN;
  }
  if (ratio >= (float)(INT8_MAX - l->zero)) {
    return INT8_MAX;
  }
  whole = (int32_t)ratio; /* towards zero */
  rest = ratio - (float)whole;
  if (rest > 0.5f || (rest == 0.5f && (!l->ties_to_even || (whole & 1)))) {
    whole++;
  } else if (rest < -0.5f || (rest == -0.5f && (!l->ties_to_even || (whole & 1)))) {
    whole--;
  }
  return (int8_t)(whole + l->zero);
}

static void quantize(const struct quantize* l, const float* input, int8_t* output) {
  const struct walk* w = &l->walk;
  int32_t i, j, k, m, n;

  for (i = 0; i < w->size[0]; i++) {
    for (j = 0; j < w->size[1]; j++) {
      for (k = 0; k < w->size[2]; k++) {
        for (m = 0; m < w->size[3]; m++) {
          const float* from = input + i * w->step[0] + j * w->step[1] + k * w->step[2] + m * w->step[3];
          for (n = 0; n < w->size[4]; n++) {
            *output++ = quantized(l, from[n * w->step[4]]);
          }
        }
      }
    }
  }
}
