/* x * multiplier * 2^(shift - 31), rounded twice: the doubled high half of the product, then what the shift
 * to the right leaves; ties away from zero. */
static int32_t multiply_twice(int32_t x, int32_t multiplier, int32_t shift) {
  const int32_t right = shift > 0 ? 0 : -shift;
  int32_t high, mask, rest;

  if (shift > 0) {
    x = clamped((int64_t)x * ((int64_t)1 << shift), INT32_MIN, INT32_MAX);
  }
  high = (int32_t)(((int64_t)x * multiplier + ((int64_t)1 << 30)) >> 31);
  mask = (int32_t)(((uint32_t)1 << right) - 1);
  rest = high & mask;
  return (high >> right) + (rest > (mask >> 1) + (high < 0) ? 1 : 0);
}
