static void arg_32(const struct arg* l, const int8_t* input, int32_t* output) {
  int32_t i, k;

  for (i = 0; i < l->outer; i++, input += l->axis * l->inner) {
    for (k = 0; k < l->inner; k++) {
      *output++ = arg_of(l, input + k);
    }
  }
}
