/* Sum of codes, rounded once: ((a * left + b * right) / 2^shift), ties towards +infinity. */

struct add_aligned {
  struct pair pair;
  int32_t left_zero, right_zero;
  int32_t left, right; /* multipliers; that of a difference is negative */
  int32_t shift;       /* 1 ... 62 */
  int32_t zero, low, high;
};

static int32_t aligned_sum_of_codes(const void* rule, int32_t a, int32_t b) {
  const struct add_aligned* l = rule;
  const int64_t sum = (int64_t)(a - l->left_zero) * l->left + (int64_t)(b - l->right_zero) * l->right;

  return clamped(((sum + ((int64_t)1 << (l->shift - 1))) >> l->shift) + l->zero, l->low, l->high);
}

static void add_aligned(const struct add_aligned* l, const int8_t* a, const int8_t* b, int8_t* output) {
  each_pair(&l->pair, a, b, output, aligned_sum_of_codes, l);
}
