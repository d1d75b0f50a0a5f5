/* Two tensors, element by element; a step of 0 repeats what is broadcast. */

struct pair {
  int32_t size[4];
  int32_t left[4], right[4]; /* elements from one index to the next */
};

static void each_pair(const struct pair* p, const int8_t* a, const int8_t* b, int8_t* output,
                      int32_t (*of)(const void* rule, int32_t a, int32_t b), const void* rule) {
  int32_t i, j, k, l;

  for (i = 0; i < p->size[0]; i++) {
    for (j = 0; j < p->size[1]; j++) {
      for (k = 0; k < p->size[2]; k++) {
        const int8_t* left = a + i * p->left[0] + j * p->left[1] + k * p->left[2];
        const int8_t* right = b + i * p->right[0] + j * p->right[1] + k * p->right[2];
        for (l = 0; l < p->size[3]; l++) {
          *output++ = (int8_t)of(rule, left[l * p->left[3]], right[l * p->right[3]]);
        }
      }
    }
  }
}
