/* uint8 codes of an input or output are int8 codes inside: code - 128. */
static void flip(void* codes, int32_t count) {
  uint8_t* at = codes;
  int32_t i;

  for (i = 0; i < count; i++) {
    at[i] ^= 0x80u;
  }
}
