typedef char shifts_keep_the_sign[(-2 >> 1) == -1 ? 1 : -1];

static int32_t clamped(int64_t code, int32_t low, int32_t high) {
  return code < low ? low : code > high ? high : (int32_t)code;
}
