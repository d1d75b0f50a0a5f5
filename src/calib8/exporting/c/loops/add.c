/* Sum of codes: both sides are scaled to one step, added, and scaled to that of the output; rounded twice
 * each. */

struct add {
  struct pair pair;
  int32_t left_zero, right_zero;
  int32_t left_multiplier, left_shift, right_multiplier, right_shift;
  int32_t gained; /* bits by which both sides are shifted to the left before */
  int32_t sign;   /* of the right side */
  int32_t multiplier, shift, zero, low, high;
};

static int32_t sum_of_codes(const void* rule, int32_t a, int32_t b) {
  const struct add* l = rule;
  const int32_t unit = (int32_t)1 << l->gained;
  const int32_t left = multiply_twice((a - l->left_zero) * unit, l->left_multiplier, l->left_shift);
  const int32_t right = multiply_twice((b - l->right_zero) * unit, l->right_multiplier, l->right_shift);

  return clamped((int64_t)multiply_twice(left + l->sign * right, l->multiplier, l->shift) + l->zero, l->low,
                 l->high);
}

static void add(const struct add* l, const int8_t* a, const int8_t* b, int8_t* output) {
  each_pair(&l->pair, a, b, output, sum_of_codes, l);
}
