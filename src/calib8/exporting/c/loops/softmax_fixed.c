/* Softmax of rows as TensorFlow Lite defines it: fixed point with a integer bits is Qa.(31 - a). */

struct softmax_fixed {
  int32_t rows, size;
  int32_t multiplier, shift; /* of a difference of codes, to Q5.26 */
  int32_t diff_min;          /* codes that lie further below the largest do not count */
};

/* (a * b) / 2^31, ties towards +infinity. */
static int32_t high_product(int32_t a, int32_t b) {
  return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

/* x / 2^exponent, ties away from zero. */
static int32_t halved(int32_t x, int32_t exponent) {
  const int32_t mask = (int32_t)(((uint32_t)1 << exponent) - 1);

  return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0) ? 1 : 0);
}

/* e^a in Q0.31 of -1/4 <= a < 0 in Q0.31: a series around -1/8. */
static int32_t exp_within_quarter(int32_t a) {
  const int32_t x = a + ((int32_t)1 << 28);
  const int32_t square = high_product(x, x);
  const int32_t fourth = halved(high_product(square, square), 2);
  const int32_t rest = high_product(fourth + high_product(square, x), 715827883) + square; /* 1/3 */

  return 1895147668 + high_product(x + halved(rest, 1), 1895147668); /* e^(-1/8) */
}

/* e^a in Q0.31 of a <= 0 in Q5.26. */
static int32_t exp_of_negative(int32_t a) {
  static const int32_t factors[7] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  const int32_t quarter = (int32_t)1 << 24;
  const int32_t within = (a & (quarter - 1)) - quarter;
  const int32_t whole = within - a;
  int32_t result = exp_within_quarter(within * 32);
  int32_t i;

  for (i = 0; i < 7; i++) { /* e^(-2^(i - 2)) */
    if (whole & (int32_t)((uint32_t)quarter << i)) {
      result = high_product(result, factors[i]);
    }
  }
  return a == 0 ? INT32_MAX : result;
}

/* 1 / (1 + a) in Q0.31 of 0 <= a < 1 in Q0.31, by Newton's method. */
static int32_t one_over_one_plus(int32_t a) {
  const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
  int32_t x = 1515870810 + high_product(half, -1010580540); /* 48/17 - 32/17 * half in Q2.29 */
  int32_t i;

  for (i = 0; i < 3; i++) {
    const int32_t error = ((int32_t)1 << 29) - high_product(half, x);
    x += clamped((int64_t)high_product(x, error) * 4, INT32_MIN, INT32_MAX);
  }
  return clamped((int64_t)x * 2, INT32_MIN, INT32_MAX);
}

static int32_t exp_of_difference(const struct softmax_fixed* l, int32_t difference) {
  return exp_of_negative(
      high_product((int32_t)((int64_t)difference * ((int64_t)1 << l->shift)), l->multiplier));
}

static void softmax_fixed(const struct softmax_fixed* l, const int8_t* input, int8_t* output) {
  int32_t row, i;

  for (row = 0; row < l->rows; row++, input += l->size, output += l->size) {
    int32_t largest = INT8_MIN, headroom = 0, inverse;
    int64_t total = 0;
    for (i = 0; i < l->size; i++) {
      largest = input[i] > largest ? input[i] : largest;
    }
    for (i = 0; i < l->size; i++) {
      if (input[i] - largest >= l->diff_min) {
        total += halved(exp_of_difference(l, input[i] - largest), 12);
      }
    }
    total = total > INT32_MAX ? INT32_MAX : total;
    while ((total << headroom) < ((int64_t)1 << 31)) { /* leading zeros of 32 bits */
      headroom++;
    }
    inverse = one_over_one_plus((int32_t)((total << headroom) - ((int64_t)1 << 31)));
    for (i = 0; i < l->size; i++) {
      int32_t share = 0;
      if (input[i] - largest >= l->diff_min) {
        share = halved(high_product(inverse, exp_of_difference(l, input[i] - largest)), 35 - headroom);
      }
      output[i] = (int8_t)clamped((int64_t)share + INT8_MIN, INT8_MIN, INT8_MAX);
    }
  }
}
