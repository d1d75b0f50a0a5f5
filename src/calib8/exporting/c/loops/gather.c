/* Picks indices along an axis: [outer, axis, inner bytes] becomes [outer, count, inner bytes]. */

struct gather {
  int32_t outer, axis, count, inner;
  const int32_t* index;
};

static void gather(const struct gather* l, const void* input, void* output) {
  const char* in = input;
  char* out = output;
  int32_t i, j;

  for (i = 0; i < l->outer; i++, in += l->axis * l->inner) {
    for (j = 0; j < l->count; j++, out += l->inner) {
      memcpy(out, in + l->index[j] * l->inner, (size_t)l->inner);
    }
  }
}
