/* Mean or sum over axes that lie together: [outer, reduced, inner] becomes [outer, inner]. */

struct mean {
  int32_t outer, reduced, inner;
  int32_t in_zero;
  struct scaling scaling;
};

static void mean(const struct mean* l, const int8_t* input, int8_t* output) {
  int32_t i, j, k;

  for (i = 0; i < l->outer; i++, input += l->reduced * l->inner) {
    for (k = 0; k < l->inner; k++) {
      int32_t sum = 0;
      for (j = 0; j < l->reduced; j++) {
        sum += input[j * l->inner + k] - l->in_zero;
      }
      *output++ = (int8_t)code_of(&l->scaling, k, sum);
    }
  }
}
