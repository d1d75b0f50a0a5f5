/* Moves elements of a few bytes: out[i, j, k, l, m] = in[i, j, k, l, m], each with steps of its own. */

struct place {
  int32_t size[5];
  int32_t from, in[5]; /* bytes to the first element, and from one index to the next; may be negative */
  int32_t to, out[5];
  int32_t bytes; /* of an element */
};

static void place(const struct place* l, const void* input, void* output) {
  int32_t i, j, k, m, n;

  for (i = 0; i < l->size[0]; i++) {
    for (j = 0; j < l->size[1]; j++) {
      for (k = 0; k < l->size[2]; k++) {
        for (m = 0; m < l->size[3]; m++) {
          const char* in =
              (const char*)input + l->from + i * l->in[0] + j * l->in[1] + k * l->in[2] + m * l->in[3];
          char* out = (char*)output + l->to + i * l->out[0] + j * l->out[1] + k * l->out[2] + m * l->out[3];
          for (n = 0; n < l->size[4]; n++) {
            memcpy(out + n * l->out[4], in + n * l->in[4], (size_t)l->bytes);
          }
        }
      }
    }
  }
}
