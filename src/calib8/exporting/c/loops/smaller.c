/* The smaller of two codes. */
static int32_t smaller_code(const void* rule, int32_t a, int32_t b) {
  (void)rule;
  return a < b ? a : b;
}

static void smaller(const struct pair* l, const int8_t* a, const int8_t* b, int8_t* output) {
  each_pair(l, a, b, output, smaller_code, NULL);
}
