// pool_lanes.h for AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kWidth = 64, kLanes = 16;
using Bytes = __m512i;
using Words = __m512i;
using Ints = __m512i;
using Floats = __m512;

inline Bytes splat_bytes(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
inline Bytes load_bytes(const uint8_t* from) { return _mm512_loadu_si512(from); }
inline void store_bytes(uint8_t* to, Bytes x, int64_t count) {
  if (count >= kWidth) {
    _mm512_storeu_si512(to, x);
  } else {
    _mm512_mask_storeu_epi8(to, (uint64_t{1} << count) - 1, x);
  }
}
inline Bytes larger(Bytes a, Bytes b) { return _mm512_max_epu8(a, b); }
inline Bytes smaller(Bytes a, Bytes b) { return _mm512_min_epu8(a, b); }
// The first `count` bytes; the others are 0.
inline Bytes first_bytes(Bytes x, int64_t count) {
  return count >= kWidth ? x : _mm512_maskz_mov_epi8((uint64_t{1} << count) - 1, x);
}
// Bit i: byte i is that of the other.
inline uint64_t equal_bytes(Bytes a, Bytes b) { return _mm512_cmpeq_epi8_mask(a, b); }
inline int largest_byte(Bytes x) {
  __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
  __m128i quarter = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  // the smallest of 8 words: bytes are paired first, and turned round
  const __m128i turned = _mm_xor_si128(quarter, _mm_set1_epi8(-1));
  const __m128i paired = _mm_min_epu8(turned, _mm_srli_epi16(turned, 8));
  return 255 - (_mm_cvtsi128_si32(_mm_minpos_epu16(paired)) & 0xff);
}

inline Words zero_words() { return _mm512_setzero_si512(); }
// kWidth / 2 codes.
inline Words widen_bytes(const uint8_t* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Words load_words(const uint16_t* from) { return _mm512_loadu_si512(from); }
inline void store_words(uint16_t* to, Words x) { _mm512_storeu_si512(to, x); }
inline Words add_words(Words a, Words b) { return _mm512_add_epi16(a, b); }

// Codes as Words and Words as Ints by halves of every 128 bits; pack_codes undoes it, with saturation.
inline Words spread_low(Bytes x) { return _mm512_unpacklo_epi8(x, _mm512_setzero_si512()); }
inline Words spread_high(Bytes x) { return _mm512_unpackhi_epi8(x, _mm512_setzero_si512()); }
inline Ints spread_low_ints(Words x) { return _mm512_unpacklo_epi16(x, _mm512_setzero_si512()); }
inline Ints spread_high_ints(Words x) { return _mm512_unpackhi_epi16(x, _mm512_setzero_si512()); }
inline Bytes pack_codes(Ints a, Ints b, Ints c, Ints d) {
  return _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
}

inline Ints splat_int(int32_t value) { return _mm512_set1_epi32(value); }
inline Ints load_ints(const int32_t* from) { return _mm512_loadu_si512(from); }
inline void store_ints(int32_t* to, Ints x) { _mm512_storeu_si512(to, x); }
// kLanes codes.
inline Ints widen_codes(const uint8_t* from) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Ints low_ints(Words x) { return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x)); }
inline Ints high_ints(Words x) { return _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1)); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints subtract(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
inline Ints multiply(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
inline Ints magnitude(Ints x) { return _mm512_abs_epi32(x); }
// x, or −x where `sign` is negative.
inline Ints with_sign(Ints x, Ints sign) {
  return _mm512_mask_sub_epi32(x, _mm512_movepi32_mask(sign), _mm512_setzero_si512(), x);
}
inline Ints shift_right(Ints x, int bits) { return _mm512_sra_epi32(x, _mm_cvtsi32_si128(bits)); }
inline Ints shift_right_unsigned(Ints x, int bits) { return _mm512_srl_epi32(x, _mm_cvtsi32_si128(bits)); }
// `index` where a > b (or a ≥ b), else `other`.
inline Ints where_greater(Ints a, Ints b, bool or_equal, Ints index, Ints other) {
  const __mmask16 mask = or_equal ? _mm512_cmpge_epi32_mask(a, b) : _mm512_cmpgt_epi32_mask(a, b);
  return _mm512_mask_mov_epi32(other, mask, index);
}
inline Ints larger_ints(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
// Σ over pairs of int16, added to `acc`.
inline Ints add_pairs(Ints acc, Ints a, Ints b) { return _mm512_dpwssd_epi32(acc, a, b); }
// (x·multiplier + 2^(right − 1)) >> right in int64, its low 32 bits. |x| < 2^30.
inline Ints multiply_shift(Ints x, int32_t multiplier, int64_t right) {
  const __m512i factor = _mm512_set1_epi64(multiplier), half = _mm512_set1_epi64(int64_t{1} << (right - 1));
  const __m128i bits = _mm_cvtsi64_si128(right);
  const __m512i even = _mm512_sra_epi64(_mm512_add_epi64(_mm512_mul_epi32(x, factor), half), bits);
  const __m512i odd =
      _mm512_sra_epi64(_mm512_add_epi64(_mm512_mul_epi32(_mm512_srli_epi64(x, 32), factor), half), bits);
  return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}
// kLanes values 0 … 255, of which `count` are written.
inline void store_codes(uint8_t* to, Ints x, int64_t count) {
  const __m128i codes = _mm512_cvtepi32_epi8(x);
  if (count >= kLanes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), codes);
  } else {
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>((1U << count) - 1), codes);
  }
}

inline Floats splat_float(float value) { return _mm512_set1_ps(value); }
inline Floats load_floats(const float* from) { return _mm512_loadu_ps(from); }
inline Floats to_floats(Ints x) { return _mm512_cvtepi32_ps(x); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
// Not-a-number gives `low`.
inline Floats clamp_floats(Floats x, Floats low, Floats high) {
  return _mm512_min_ps(_mm512_max_ps(x, low), high);
}
// Ties to even.
inline Ints round_to_ints(Floats x) { return _mm512_cvtps_epi32(x); }
// a·b + c, rounded once.
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats larger_floats(Floats a, Floats b) { return _mm512_max_ps(a, b); }
// How far from the next whole number.
inline Floats distance_to_whole(Floats x) { return _mm512_abs_ps(_mm512_reduce_ps(x, 0)); }
inline bool any_above(Floats x, Floats limit) { return _mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ) != 0; }

}  // namespace
}  // namespace calib8::engine
