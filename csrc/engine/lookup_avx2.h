// y[i] = table[x[i]] over 256 entries in AVX2 registers: the low half of a code picks from each of 16 rows of
// 16 entries, the high half among the rows, bit by bit. count is a multiple of 32.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline __m256i table_row(const uint8_t* table, int row, __m256i column) {
  const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * row));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), column);
}

// Of four rows that begin at `row`: which of two pairs says bit 5 of the code, which of a pair bit 4; both
// bits lie on top of their bytes.
inline __m256i of_four_rows(const uint8_t* table, int row, __m256i column, __m256i bit4, __m256i bit5) {
  const __m256i low =
      _mm256_blendv_epi8(table_row(table, row, column), table_row(table, row + 1, column), bit4);
  const __m256i high =
      _mm256_blendv_epi8(table_row(table, row + 2, column), table_row(table, row + 3, column), bit4);
  return _mm256_blendv_epi8(low, high, bit5);
}

inline __m256i look_up_32(const uint8_t* table, __m256i codes) {
  const __m256i column = _mm256_and_si256(codes, _mm256_set1_epi8(15));
  const __m256i bit4 = _mm256_slli_epi16(codes, 3), bit5 = _mm256_slli_epi16(codes, 2);
  const __m256i bit6 = _mm256_slli_epi16(codes, 1);
  const __m256i low = _mm256_blendv_epi8(of_four_rows(table, 0, column, bit4, bit5),
                                         of_four_rows(table, 4, column, bit4, bit5), bit6);
  const __m256i high = _mm256_blendv_epi8(of_four_rows(table, 8, column, bit4, bit5),
                                          of_four_rows(table, 12, column, bit4, bit5), bit6);
  return _mm256_blendv_epi8(low, high, codes);
}

inline void look_up_avx2(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), look_up_32(table, codes));
  }
}

}  // namespace
}  // namespace calib8::engine
