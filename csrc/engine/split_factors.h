// FixedRescale as two products in float32, for shifts of −14 … −1; up to 8 where |v| stays below 2^30.
//
// With m = 2^7·h + l, |l| ≤ 64, and r = −shift
//
//   single   ⌊v + 1/2⌋        v = acc·m / 2^(31+r)
//   double   ⌊v + 1/2 + n⌋    n = 2^−(r+1), −n where acc < 0: SRDHM and RDPOT in one division
//
// From shift 0 on there is one rounding and n = 0.
//
// Where a clamp leaves nothing below the zero point, n needs no sign: with acc < 0, v + 1/2 + n < 1 either
// way.
//
// x = acc·l / 2^(31+r) ± n is less than 2^−r where codes do not saturate, and float32 holds all multiples of
// 2^−(24+r) up to there. acc·h / 2^(24+r) is such a multiple, and so is k − 1/2: a sum below k − 1/2 stays
// below it when first x and then the sum are rounded down. Everything is computed twice as large, for ⌊v +
// 1/2⌋ = (⌊2·v⌋ + 1) >> 1. Everything here has internal linkage.
#pragma once

#include <cstdint>
#include <cstring>

#include "steps.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// high = 2·h / 2^(24+r), low = 2·l / 2^(31+r), nudge = 2·n.
struct alignas(64) SplitFactors {
  float high[64], low[64], nudge[64];
};

[[maybe_unused]] inline float power_of_two(int32_t exponent) {
  const int32_t bits = (127 + exponent) << 23;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

constexpr int32_t kMostSplitShift = 8;

// The factors of up to 64 channels, if there are any for all of them; `most` is the largest shift.
[[maybe_unused]] inline bool split_factors(const int32_t* multiplier, const int32_t* shift, int64_t channels,
                                           bool single, int32_t most, SplitFactors& split) {
  bool fits = true;
  for (int64_t c = 0; c < channels; ++c) {
    const bool zero = multiplier[c] == 0;
    fits &= zero | ((multiplier[c] >= 1 << 30) & (shift[c] >= -14) & (shift[c] <= most));
    const int32_t left = zero ? -1 : shift[c];
    const int32_t up = (multiplier[c] >> 6) & 1, high = (multiplier[c] >> 7) + up;  // rounded
    split.high[c] = static_cast<float>(high) * power_of_two(left - 23);
    split.low[c] = static_cast<float>((multiplier[c] & 127) - 128 * up) * power_of_two(left - 30);
    split.nudge[c] = single || left >= 0 ? 0.0F : power_of_two(left);
  }
  return fits;
}

// Whether the nudge of a rule needs the sign of the sum.
[[maybe_unused]] inline bool nudge_has_sign(const Rescale& rule) {
  return rule.kind == Rescale::kDouble && rule.low < rule.zero_point;
}

#if defined(__AVX512F__)
constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;

// 2·v + 2·n, rounded down; n with the sign of the sum where `with_sign`.
template <bool with_sign>
[[gnu::always_inline]] inline __m512 split_product(__m512i acc, __m512 high, __m512 low, __m512 nudge) {
  if constexpr (with_sign) {
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    nudge = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(nudge), acc, sign, 0xF8));
  }
  const __m512 value = _mm512_cvtepi32_ps(acc);
  const __m512 rest = _mm512_fmadd_round_ps(value, low, nudge, kDown);
  return _mm512_fmadd_round_ps(value, high, rest, kDown);
}

// ⌊2·v + 2·n⌋: add 1, shift to the right by 1.
template <bool with_sign>
[[gnu::always_inline]] inline __m512i multiplied_split(__m512i acc, __m512 high, __m512 low, __m512 nudge) {
  return _mm512_cvt_roundps_epi32(split_product<with_sign>(acc, high, low, nudge), kDown);
}
#endif

}  // namespace
}  // namespace calib8::engine
