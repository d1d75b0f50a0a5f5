/* Product of codes. */

struct multiply {
  struct pair pair;
  int32_t left_zero, right_zero;
  struct scaling scaling;
};

static int32_t product_of_codes(const void* rule, int32_t a, int32_t b) {
  const struct multiply* l = rule;

  return code_of(&l->scaling, 0, (a - l->left_zero) * (b - l->right_zero));
}

static void multiply(const struct multiply* l, const int8_t* a, const int8_t* b, int8_t* output) {
  each_pair(&l->pair, a, b, output, product_of_codes, l);
}
