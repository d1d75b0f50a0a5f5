/* A function of codes as a table: entry code + 128, of a row per channel where every channel has its own. */

struct lookup {
  int32_t rows, channels;
  int32_t stride; /* from the table of a channel to that of the next */
  const int8_t* table;
};

static void lookup(const struct lookup* l, const int8_t* input, int8_t* output) {
  int32_t row, channel;

  for (row = 0; row < l->rows; row++) {
    for (channel = 0; channel < l->channels; channel++) {
      *output++ = l->table[channel * l->stride + *input++ + 128];
    }
  }
}
