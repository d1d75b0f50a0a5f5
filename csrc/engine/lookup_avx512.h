// y[i] = table[x[i]] over 256 entries in AVX-512 registers.
//
// With VBMI two shuffles of 128 bytes reach the whole table. Without it the low half of a code picks from
// each of 16 rows of 16 entries, the high half among the rows, bit by bit.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

__attribute__((target("avx512vbmi"))) void look_up_vbmi(const uint8_t* table, const uint8_t* x, uint8_t* y,
                                                        int64_t count) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 mask = count - i < 64 ? (uint64_t{1} << (count - i)) - 1 : ~uint64_t{0};
    const __m512i codes = _mm512_maskz_loadu_epi8(mask, x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, codes, t1),
                  high = _mm512_permutex2var_epi8(t2, codes, t3);
    _mm512_mask_storeu_epi8(y + i, mask, _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high));
  }
}

struct TableRows {
  __m512i row[16];

  explicit TableRows(const uint8_t* table) {
    for (int i = 0; i < 16; ++i) {
      row[i] = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * i)));
    }
  }
  __m512i at(__m512i codes) const {
    const __m512i column = _mm512_and_si512(codes, _mm512_set1_epi8(15));
    const __mmask64 bit4 = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(16));
    const __mmask64 bit5 = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(32));
    const __mmask64 bit6 = _mm512_test_epi8_mask(codes, _mm512_set1_epi8(64));
    __m512i eight[8];
    for (int i = 0; i < 8; ++i) {
      const __m512i even = _mm512_shuffle_epi8(row[2 * i], column);
      eight[i] = _mm512_mask_shuffle_epi8(even, bit4, row[2 * i + 1], column);
    }
    __m512i four[4];
    for (int i = 0; i < 4; ++i) four[i] = _mm512_mask_blend_epi8(bit5, eight[2 * i], eight[2 * i + 1]);
    const __m512i low = _mm512_mask_blend_epi8(bit6, four[0], four[1]);
    const __m512i high = _mm512_mask_blend_epi8(bit6, four[2], four[3]);
    return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
  }
};

void look_up(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  if (__builtin_cpu_supports("avx512vbmi")) return look_up_vbmi(table, x, y, count);
  const TableRows rows(table);
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 mask = count - i < 64 ? (uint64_t{1} << (count - i)) - 1 : ~uint64_t{0};
    _mm512_mask_storeu_epi8(y + i, mask, rows.at(_mm512_maskz_loadu_epi8(mask, x + i)));
  }
}

}  // namespace
}  // namespace calib8::engine
