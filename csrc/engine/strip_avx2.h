// The float rules of a strip of 16 channels in 32-byte vectors.
//
// Factors are finite, so there is no NaN; what lies above the clamp is cut off before it becomes an integer,
// what lies below saturates on the way to a byte.
#pragma once

#include <immintrin.h>

#include "strip_codes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// 16 float32 values, clamped above, as stored codes.
[[maybe_unused]] inline __m128i rounded_codes(__m256 left, __m256 right, float most, int32_t shift,
                                              int32_t low) {
  const __m256 above = _mm256_set1_ps(most);
  const __m256i first = _mm256_cvtps_epi32(_mm256_min_ps(left, above));
  const __m256i second = _mm256_cvtps_epi32(_mm256_min_ps(right, above));
  const __m256i words =
      _mm256_adds_epi16(_mm256_packs_epi32(first, second), _mm256_set1_epi16(static_cast<int16_t>(shift)));
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  const __m128i codes = _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order));
  return _mm_max_epu8(codes, _mm_set1_epi8(static_cast<char>(low)));
}

[[maybe_unused]] inline void float_codes_avx2(const StripRescale& rule, const int32_t* acc, uint8_t* codes) {
  const auto* sums = reinterpret_cast<const __m256i*>(acc);
  const __m256 left =
      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256(sums)), _mm256_load_ps(rule.factor));
  const __m256 right =
      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256(sums + 1)), _mm256_load_ps(rule.factor + 8));
  const __m128i result = rounded_codes(left, right, rule.most, rule.zero_point, rule.low + rule.zero_point);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), result);
}

// 8 stored codes as float32 values of raw codes.
[[maybe_unused]] inline __m256 raw_codes(const uint8_t* codes, int64_t shift) {
  const __m256i stored = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(stored, _mm256_set1_epi32(static_cast<int32_t>(shift))));
}

[[maybe_unused]] inline void add_strips_avx2(const SumRule& rule, const uint8_t* lhs, const uint8_t* rhs,
                                             uint8_t* codes) {
  if (rule.kind != SumRule::kFloatSum) return add_strips(rule, lhs, rhs, codes);
  const __m256 left = _mm256_set1_ps(static_cast<float>(rule.lhs)),
               right = _mm256_set1_ps(static_cast<float>(rule.rhs));
  const __m256 fixed = _mm256_set1_ps(static_cast<float>(rule.fixed));
  __m256 sums[2];
  for (int half = 0; half < 2; ++half) {
    const __m256 inner = _mm256_fmadd_ps(raw_codes(rhs + 8 * half, rule.rhs_shift), right, fixed);
    sums[half] = _mm256_fmadd_ps(raw_codes(lhs + 8 * half, rule.lhs_shift), left, inner);
  }
  const __m128i result =
      rounded_codes(sums[0], sums[1], static_cast<float>(rule.high - rule.output_shift),
                    static_cast<int32_t>(rule.output_shift), static_cast<int32_t>(rule.low));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), result);
}

}  // namespace
}  // namespace calib8::engine
