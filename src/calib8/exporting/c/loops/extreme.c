/* Largest or smallest code over axes that lie together: [outer, reduced, inner] becomes [outer, inner]. */

struct extreme {
  int32_t outer, reduced, inner;
  int32_t sign; /* 1: the largest, -1: the smallest */
};

static void extreme(const struct extreme* l, const int8_t* input, int8_t* output) {
  int32_t i, j, k;

  for (i = 0; i < l->outer; i++, input += l->reduced * l->inner) {
    for (k = 0; k < l->inner; k++) {
      int8_t found = input[k];
      for (j = 1; j < l->reduced; j++) {
        const int8_t code = input[j * l->inner + k];
        found = code * l->sign > found * l->sign ? code : found;
      }
      *output++ = found;
    }
  }
}
