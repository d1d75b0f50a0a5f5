/* Softmax of rows: exponentials from a table, summed, and one division; ties towards +infinity. */

struct softmax_table {
  int32_t rows, size;
  const int32_t* table; /* entry 255 - d for a code that lies d below the largest of its row */
  int64_t factor;       /* 1 / output scale */
  int32_t fraction_bits, zero;
};

static void softmax_table(const struct softmax_table* l, const int8_t* input, int8_t* output) {
  int32_t row, i;

  for (row = 0; row < l->rows; row++, input += l->size, output += l->size) {
    int32_t largest = INT8_MIN;
    int64_t total = 0;
    for (i = 0; i < l->size; i++) {
      largest = input[i] > largest ? input[i] : largest;
    }
    for (i = 0; i < l->size; i++) {
      total += l->table[input[i] - largest + 255];
    }
    for (i = 0; i < l->size; i++) {
      const int64_t doubled =
          2 * l->table[input[i] - largest + 255] * l->factor + (total << l->fraction_bits);
      output[i] = (int8_t)clamped(doubled / (total << (l->fraction_bits + 1)) + l->zero, INT8_MIN, INT8_MAX);
    }
  }
}
