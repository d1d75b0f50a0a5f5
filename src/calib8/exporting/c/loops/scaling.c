/* How a sum becomes a code: y = clamp(x * multiplier * 2^(shift - 31) + zero), whole numbers only. */

enum rounding { TWICE, ONCE_UP, ONCE_AWAY }; /* ties away from zero, towards +infinity, away from zero */

struct scaling {
  const int32_t* multiplier;
  const int32_t* shift; /* -31 ... 30, positive: to the left */
  int32_t per_channel;  /* 1: every channel has its own; 0: the first serves all */
  enum rounding rounding;
  int32_t zero; /* zero point of the codes */
  int32_t low;
  int32_t high;
};

static int64_t multiply_once(int32_t x, int32_t multiplier, int32_t shift, enum rounding rounding) {
  const int32_t right = 31 - shift;
  const int64_t half = (int64_t)1 << (right - 1);
  const int64_t product = (int64_t)x * multiplier;

  if (rounding == ONCE_AWAY && product < 0) {
    return -((half - product) >> right);
  }
  return (product + half) >> right;
}

static int32_t code_of(const struct scaling* s, int32_t channel, int32_t sum) {
  const int32_t at = s->per_channel ? channel : 0;
  const int64_t y = s->rounding == TWICE ? multiply_twice(sum, s->multiplier[at], s->shift[at])
                                         : multiply_once(sum, s->multiplier[at], s->shift[at], s->rounding);

  return clamped(y + s->zero, s->low, s->high);
}
