// pool_lanes.h for AVX2.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kWidth = 32, kLanes = 8;
using Bytes = __m256i;
using Words = __m256i;
using Ints = __m256i;
using Floats = __m256;

inline __m256i load_256(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
inline void store_256(void* to, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(to), x); }

// The lowest `count` < 16 bytes.
inline void store_few(uint8_t* to, __m128i x, int64_t count) {
  uint64_t rest = static_cast<uint64_t>(_mm_cvtsi128_si64(x));
  if ((count & 8) != 0) {
    std::memcpy(to, &rest, 8);
    rest = static_cast<uint64_t>(_mm_extract_epi64(x, 1));
    to += 8;
  }
  for (int64_t size = 4; size > 0; size /= 2) {
    if ((count & size) != 0) {
      std::memcpy(to, &rest, static_cast<size_t>(size));
      rest >>= 8 * size;
      to += size;
    }
  }
}

inline Bytes splat_bytes(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
inline Bytes load_bytes(const uint8_t* from) { return load_256(from); }
inline void store_bytes(uint8_t* to, Bytes x, int64_t count) {
  if (count >= kWidth) {
    store_256(to, x);
  } else if (count >= 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(x));
    store_few(to + 16, _mm256_extracti128_si256(x, 1), count - 16);
  } else {
    store_few(to, _mm256_castsi256_si128(x), count);
  }
}
inline Bytes larger(Bytes a, Bytes b) { return _mm256_max_epu8(a, b); }
inline Bytes smaller(Bytes a, Bytes b) { return _mm256_min_epu8(a, b); }
// The first `count` bytes; the others are 0.
inline Bytes first_bytes(Bytes x, int64_t count) {
  const __m256i places = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                          19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
  const auto end = static_cast<char>(count < kWidth ? count : kWidth);
  return _mm256_and_si256(x, _mm256_cmpgt_epi8(_mm256_set1_epi8(end), places));
}
// Bit i: byte i is that of the other.
inline uint64_t equal_bytes(Bytes a, Bytes b) {
  return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)));
}
inline int largest_byte(Bytes x) {
  const __m128i half = _mm_max_epu8(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  // the smallest of 8 words: bytes are paired first, and turned round
  const __m128i turned = _mm_xor_si128(half, _mm_set1_epi8(-1));
  const __m128i paired = _mm_min_epu8(turned, _mm_srli_epi16(turned, 8));
  return 255 - (_mm_cvtsi128_si32(_mm_minpos_epu16(paired)) & 0xff);
}

inline Words zero_words() { return _mm256_setzero_si256(); }
// kWidth / 2 codes.
inline Words widen_bytes(const uint8_t* from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Words load_words(const uint16_t* from) { return load_256(from); }
inline void store_words(uint16_t* to, Words x) { store_256(to, x); }
inline Words add_words(Words a, Words b) { return _mm256_add_epi16(a, b); }

// Codes as Words and Words as Ints by halves of every 128 bits; pack_codes undoes it, with saturation.
inline Words spread_low(Bytes x) { return _mm256_unpacklo_epi8(x, _mm256_setzero_si256()); }
inline Words spread_high(Bytes x) { return _mm256_unpackhi_epi8(x, _mm256_setzero_si256()); }
inline Ints spread_low_ints(Words x) { return _mm256_unpacklo_epi16(x, _mm256_setzero_si256()); }
inline Ints spread_high_ints(Words x) { return _mm256_unpackhi_epi16(x, _mm256_setzero_si256()); }
inline Bytes pack_codes(Ints a, Ints b, Ints c, Ints d) {
  return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

inline Ints splat_int(int32_t value) { return _mm256_set1_epi32(value); }
inline Ints load_ints(const int32_t* from) { return load_256(from); }
inline void store_ints(int32_t* to, Ints x) { store_256(to, x); }
// kLanes codes.
inline Ints widen_codes(const uint8_t* from) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline Ints low_ints(Words x) { return _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x)); }
inline Ints high_ints(Words x) { return _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1)); }
inline Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
inline Ints subtract(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
inline Ints multiply(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
inline Ints magnitude(Ints x) { return _mm256_abs_epi32(x); }
// x, or −x where `sign` is negative.
inline Ints with_sign(Ints x, Ints sign) {
  return _mm256_sign_epi32(x, _mm256_or_si256(sign, _mm256_set1_epi32(1)));
}
inline Ints shift_right(Ints x, int bits) { return _mm256_sra_epi32(x, _mm_cvtsi32_si128(bits)); }
inline Ints shift_right_unsigned(Ints x, int bits) { return _mm256_srl_epi32(x, _mm_cvtsi32_si128(bits)); }
// `index` where a > b (or a ≥ b), else `other`.
inline Ints where_greater(Ints a, Ints b, bool or_equal, Ints index, Ints other) {
  return or_equal ? _mm256_blendv_epi8(index, other, _mm256_cmpgt_epi32(b, a))
                  : _mm256_blendv_epi8(other, index, _mm256_cmpgt_epi32(a, b));
}
inline Ints larger_ints(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
// Σ over pairs of int16, added to `acc`.
inline Ints add_pairs(Ints acc, Ints a, Ints b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
// (x·multiplier + 2^(right − 1)) >> right in int64, its low 32 bits. There is no arithmetic shift of int64:
// an offset makes the sum positive. |x| < 2^30.
inline Ints multiply_shift(Ints x, int32_t multiplier, int64_t right) {
  const __m256i factor = _mm256_set1_epi64x(multiplier), half = _mm256_set1_epi64x(int64_t{1} << (right - 1));
  const __m128i bits = _mm_cvtsi64_si128(right);
  const __m256i offset = _mm256_set1_epi64x(int64_t{1} << 62);
  const __m256i shifted_offset = _mm256_srl_epi64(offset, bits);
  const auto shifted = [&](__m256i steps) {
    const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epi32(steps, factor), half), offset);
    return _mm256_sub_epi64(_mm256_srl_epi64(sum, bits), shifted_offset);
  };
  const __m256i even = shifted(x), odd = shifted(_mm256_srli_epi64(x, 32));
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
// kLanes values 0 … 255, of which `count` are written.
inline void store_codes(uint8_t* to, Ints x, int64_t count) {
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  const __m128i codes = _mm_packus_epi16(words, words);
  if (count >= kLanes) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), codes);
  } else {
    store_few(to, codes, count);
  }
}

inline Floats splat_float(float value) { return _mm256_set1_ps(value); }
inline Floats load_floats(const float* from) { return _mm256_loadu_ps(from); }
inline Floats to_floats(Ints x) { return _mm256_cvtepi32_ps(x); }
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
// Not-a-number gives `low`.
inline Floats clamp_floats(Floats x, Floats low, Floats high) {
  return _mm256_min_ps(_mm256_max_ps(x, low), high);
}
// Ties to even.
inline Ints round_to_ints(Floats x) { return _mm256_cvtps_epi32(x); }
// a·b + c, rounded once.
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats larger_floats(Floats a, Floats b) { return _mm256_max_ps(a, b); }
// How far from the next whole number.
inline Floats distance_to_whole(Floats x) {
  const Floats rest = _mm256_sub_ps(x, _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), rest);
}
inline bool any_above(Floats x, Floats limit) {
  return _mm256_movemask_ps(_mm256_cmp_ps(x, limit, _CMP_GT_OQ)) != 0;
}

}  // namespace
}  // namespace calib8::engine
