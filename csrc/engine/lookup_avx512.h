// y[i] = table[x[i]] over 256 entries in AVX-512 registers.
//
// With VBMI two shuffles of 128 bytes reach the whole table. Without it the low half of a code picks from
// each of 16 rows of 16 entries, the high half among the rows, bit by bit.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "../cpu.h"
#include "lookup_avx2.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

__attribute__((target("avx512vbmi"))) void look_up_vbmi(const uint8_t* table, const uint8_t* x, uint8_t* y,
                                                        int64_t count) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t i = 0; i < count; i += 64) {
    const __m512i codes = _mm512_loadu_si512(x + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, codes, t1),
                  high = _mm512_permutex2var_epi8(t2, codes, t3);
    _mm512_storeu_si512(y + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high));
  }
}

inline bool looks_up_in_registers() { return (features() & kAvx512vbmi) != 0; }

// table[code] of 64 codes, only where looks_up_in_registers(). As assembly: the functions that it becomes
// part of are compiled for processors without VBMI too.
[[gnu::always_inline]] inline __m512i looked_up(const uint8_t* table, __m512i codes) {
  using Quarter = const uint8_t[64];
  const auto* quarters = reinterpret_cast<Quarter*>(table);
  __m512i low = codes, high = codes;
  asm("vpermi2b %2,%1,%0" : "+v"(low) : "v"(_mm512_loadu_si512(table)), "m"(quarters[1]));
  asm("vpermi2b %2,%1,%0" : "+v"(high) : "v"(_mm512_loadu_si512(table + 128)), "m"(quarters[3]));
  return _mm512_mask_blend_epi8(_mm512_movepi8_mask(codes), low, high);
}

inline void look_up(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  if (looks_up_in_registers()) {
    look_up_vbmi(table, x, y, count);
  } else {
    look_up_avx2(table, x, y, count);
  }
}

}  // namespace
}  // namespace calib8::engine
