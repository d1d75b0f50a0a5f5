// FixedRescale as two products in float32, for shifts of −15 … −1; up to 8 where |v| stays below 2^30.
//
// With m = 2^7·h + l, |l| ≤ 64, and r = −shift
//
//   single   ⌊v + 1/2⌋        v = acc·m / 2^(31+r)
//   double   ⌊v + 1/2 + n⌋    n = 2^−(r+1), −n where acc·m < 0: SRDHM and RDPOT in one division
//   away     ⌊v + 1/2 + n⌋    n = 2^−(32+r), −n where acc·m < 0: half of what v is a multiple of
//
// From shift 0 on double has one rounding and n = 0.
//
// Where a clamp leaves nothing below the zero point, n needs no sign: with acc < 0, v + 1/2 + n < 1 either
// way.
//
// x = acc·l / 2^(31+r) ± n is at most 2^−r where codes do not saturate, and float32 holds all multiples of
// 2^−(24+r) up to there. acc·h / 2^(24+r) is such a multiple, and so is k − 1/2: a sum below k − 1/2 stays
// below it when first x and then the sum are rounded down. All that takes |acc| ≤ 2^24 where codes do not
// saturate: |v| < 2^8 and m ≥ 2^30, so |acc| < 2^(9+r). Larger sums, which float32 rounds, saturate. Steps of
// curves have |v| ≤ 2^15 and need r ≤ 8.
//
// For codes everything is computed twice as large, for ⌊v + 1/2⌋ = (⌊2·v⌋ + 1) >> 1; twice the steps would
// leave 16 bits, so that 1/2 is added to them, rounding down once more: v + n ≥ k − 1/2 keeps its sum at k
// or above, and what is below stays there.
//
// Everything here has internal linkage.
#pragma once

#include <cstdint>
#include <cstring>

#include "steps.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// high = 2·h / 2^(24+r), low = 2·l / 2^(31+r), nudge = 2·n with the sign of m, minus = −nudge; half of that
// for steps.
struct alignas(64) SplitFactors {
  float high[64], low[64], nudge[64], minus[64];
};

[[maybe_unused]] inline float float_of(uint32_t bits) {
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

constexpr uint32_t kExponentOfOne = 127U << 23, kSignBit = 1U << 31;

[[maybe_unused]] inline float power_of_two(int32_t exponent) {
  return float_of(kExponentOfOne + (static_cast<uint32_t>(exponent) << 23));
}

constexpr int32_t kMostSplitShift = 8;

// What the factors are for.
enum class SplitUse { kCodes, kSteps };

// The factors of up to 64 channels, if there are any for all of them; `most` is the largest shift.
[[maybe_unused]] inline bool split_factors(const int32_t* multiplier, const int32_t* shift, int64_t channels,
                                           int64_t kind, int32_t most, SplitFactors& split,
                                           SplitUse use = SplitUse::kCodes) {
  const int32_t half = use == SplitUse::kSteps ? 1 : 0, least = half != 0 ? -8 : -15;
  const uint32_t range = static_cast<uint32_t>(most - least);
  // Numbers in place of conditions: every channel has the same instructions.
  const int32_t away = kind == Rescale::kAway ? -1 : 0;
  const uint32_t nudged = kind == Rescale::kSingle ? 0 : ~0U;
  const int32_t down = half + (away & 31);
  float *const high = split.high, *const low = split.low;
  int32_t others = 0;
  for (int64_t c = 0; c < channels; ++c) {
    const int32_t m = multiplier[c], sign = m >> 31, size = (m ^ sign) - sign;
    const int32_t inside = static_cast<uint32_t>(shift[c] - least) <= range ? size >> 30 : 0;
    others |= m == 0 ? 0 : inside ^ 1;
    const int32_t left = m == 0 ? -1 : shift[c];
    const int32_t up = (m >> 6) & 1;
    high[c] = static_cast<float>((m >> 7) + up) * power_of_two(left - 23 - half);  // rounded
    low[c] = static_cast<float>((m & 127) - 128 * up) * power_of_two(left - 30 - half);
    const uint32_t twice = static_cast<uint32_t>(left >> 31 | away);  // 0 where there is one rounding
    const uint32_t nudge = kExponentOfOne + (static_cast<uint32_t>(left - down) << 23);
    split.nudge[c] = float_of((nudge | (static_cast<uint32_t>(m) & kSignBit)) & twice & nudged);
    split.minus[c] = -split.nudge[c];
  }
  return others == 0;
}

// Whether the nudge of a rule needs the sign of the sum.
[[maybe_unused]] inline bool nudge_has_sign(const Rescale& rule) {
  return rule.fixed() && rule.kind != Rescale::kSingle && rule.low < rule.zero_point;
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

// ⌊v + n + 1/2⌋, of factors that are for steps.
[[gnu::always_inline]] inline __m512i split_step(__m512i acc, __m512 high, __m512 low, __m512 nudge) {
  const __m512 value = split_product<true>(acc, high, low, nudge);
  return _mm512_cvt_roundps_epi32(_mm512_add_round_ps(value, _mm512_set1_ps(0.5F), kDown), kDown);
}
#endif

}  // namespace
}  // namespace calib8::engine
