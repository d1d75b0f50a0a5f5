/* Index of the largest or smallest code along an axis: [outer, axis, inner] becomes [outer, inner]. */

struct arg {
  int32_t outer, axis, inner;
  int32_t sign; /* 1: of the largest, -1: of the smallest */
  int32_t last; /* 1: the last among equals, 0: the first */
};

static int32_t arg_of(const struct arg* l, const int8_t* input) {
  int32_t found = 0, i;

  for (i = 1; i < l->axis; i++) {
    const int32_t gain = (input[i * l->inner] - input[found * l->inner]) * l->sign;
    found = gain > 0 || (gain == 0 && l->last) ? i : found;
  }
  return found;
}
