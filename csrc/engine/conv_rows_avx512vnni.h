// What follows the codes of a tile before they are stored: the sum with a residual, the table.
//
// The codes lie in rows of 64 bytes, one per pixel. Everything has internal linkage.
#pragma once

#include <immintrin.h>

#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kRowBytes = 64;

// 16 stored codes as float32 raw codes.
[[gnu::always_inline]] inline __m512 raw_floats(const uint8_t* codes, __m512i shift) {
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  return _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, shift));
}

// The constants of kFloatSum in registers.
struct FloatSum {
  __m512 lhs, rhs, fixed, least, most;
  __m512i lhs_shift, rhs_shift;
  __m128i output_shift;

  explicit FloatSum(const SumRule& rule)
      : lhs(_mm512_set1_ps(static_cast<float>(rule.lhs))),
        rhs(_mm512_set1_ps(static_cast<float>(rule.rhs))),
        fixed(_mm512_set1_ps(static_cast<float>(rule.fixed))),
        least(_mm512_set1_ps(static_cast<float>(rule.low - rule.output_shift))),
        most(_mm512_set1_ps(static_cast<float>(rule.high - rule.output_shift))),
        lhs_shift(_mm512_set1_epi32(static_cast<int>(rule.lhs_shift))),
        rhs_shift(_mm512_set1_epi32(static_cast<int>(rule.rhs_shift))),
        output_shift(_mm_set1_epi8(static_cast<char>(rule.output_shift))) {}

  // 16 codes. The order of the operands of max makes NaN the lowest code.
  [[gnu::always_inline]] __m128i operator()(const uint8_t* left, const uint8_t* right) const {
    const __m512 inner = _mm512_fmadd_ps(raw_floats(right, rhs_shift), rhs, fixed);
    const __m512 value = _mm512_fmadd_ps(raw_floats(left, lhs_shift), lhs, inner);
    const __m512 inside = _mm512_min_ps(_mm512_max_ps(value, least), most);
    return _mm_add_epi8(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(inside)), output_shift);
  }
};

// `codes` summed with the residual, in place.
inline void add_residual(const Conv& step, uint8_t* codes, const uint8_t* residual, int64_t channels) {
  const SumRule& rule = step.sum;
  const bool right = step.residual_right != 0;
  if (rule.kind == SumRule::kFloatSum) {
    const FloatSum sum(rule);
    for (int64_t c = 0; c < channels; c += 16) {
      const __m128i result = right ? sum(codes + c, residual + c) : sum(residual + c, codes + c);
      _mm_store_si128(reinterpret_cast<__m128i*>(codes + c), result);
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    codes[c] = right ? summed(rule, codes[c], residual[c]) : summed(rule, residual[c], codes[c]);
  }
}

}  // namespace
}  // namespace calib8::engine
