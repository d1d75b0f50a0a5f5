// What follows the codes of a tile in memory: a sum with a residual that was not added in registers.
//
// The codes lie in rows of 64 bytes, one per pixel. Everything has internal linkage.
#pragma once

#include "conv_steps_avx512vnni.h"
#include "rules.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The residual of a tile's pixels and the codes it is added to.
struct Rows {
  uint8_t* codes;           // kRowBytes per pixel
  const uint8_t* residual;  // 64 bytes can be read from every pixel on
  const int64_t* residual_offsets;
  int64_t count, channels;
};

[[gnu::always_inline]] inline __m512i wide_codes(const uint8_t* codes) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
}

// kAligned in int32, for shifts up to 30: the sum of the products stays below 2^30.
struct AlignedSum {
  __m512i lhs, rhs, fixed;
  __m128i right_shift;

  static bool fits(const SumRule& rule) { return rule.kind == SumRule::kAligned && rule.right_shift <= 30; }

  explicit AlignedSum(const SumRule& rule) {
    const int64_t right = rule.negative != 0 ? -rule.rhs_multiplier : rule.rhs_multiplier;
    const int64_t zeros =
        (rule.lhs_zero + rule.lhs_shift) * rule.lhs_multiplier + (rule.rhs_zero + rule.rhs_shift) * right;
    lhs = _mm512_set1_epi32(static_cast<int32_t>(rule.lhs_multiplier));
    rhs = _mm512_set1_epi32(static_cast<int32_t>(right));
    fixed = _mm512_set1_epi32(static_cast<int32_t>((int64_t{1} << (rule.right_shift - 1)) - zeros));
    right_shift = _mm_cvtsi64_si128(rule.right_shift);
  }
  CALIB8_INLINE __m512i operator()(__m512i left, __m512i right) const {
    const __m512i products = _mm512_add_epi32(_mm512_mullo_epi32(left, lhs), _mm512_mullo_epi32(right, rhs));
    return _mm512_sra_epi32(_mm512_add_epi32(products, fixed), right_shift);
  }
};

// One operand of kScaled: double((code − zero) << 20, multiplier), no left shift. With a = code − zero
//
//   (a·2^20·m + 2^30) >> 31 = a·(m >> 15)·2^4 + ((a·(m mod 2^15) + 2^10) >> 11)
struct ScaledOperand {
  __m512i zero, high, low, half, sign;
  __m128i right_shift;

  ScaledOperand(int64_t point, int64_t multiplier, int64_t exponent)
      : zero(_mm512_set1_epi32(static_cast<int32_t>(point))),
        high(_mm512_set1_epi32(static_cast<int32_t>((multiplier >> 15) << 4))),
        low(_mm512_set1_epi32(static_cast<int32_t>(multiplier & 0x7fff))),
        half(_mm512_set1_epi32(exponent == 0 ? 0 : static_cast<int32_t>(int64_t{1} << (-exponent - 1)))),
        sign(_mm512_set1_epi32(exponent == 0 ? 0 : -1)),
        right_shift(_mm_cvtsi64_si128(-exponent)) {}
  CALIB8_INLINE __m512i operator()(__m512i code) const {
    const __m512i a = _mm512_sub_epi32(code, zero);
    const __m512i rest = _mm512_add_epi32(_mm512_mullo_epi32(a, low), _mm512_set1_epi32(1 << 10));
    const __m512i x = _mm512_add_epi32(_mm512_mullo_epi32(a, high), _mm512_srai_epi32(rest, 11));
    const __m512i away = _mm512_and_si512(_mm512_srai_epi32(x, 31), sign);
    return _mm512_sra_epi32(_mm512_add_epi32(_mm512_add_epi32(x, half), away), right_shift);
  }
};

// kScaled where no multiplier needs a left shift.
struct ScaledSum {
  ScaledOperand lhs, rhs;
  bool negative;
  FixedLanes output;

  static bool fits(const SumRule& rule) {
    return rule.kind == SumRule::kScaled && rule.left_shift == 20 && rule.lhs_exponent <= 0 &&
           rule.lhs_exponent >= -30 && rule.rhs_exponent <= 0 && rule.rhs_exponent >= -30 &&
           rule.output_exponent < 0;
  }

  explicit ScaledSum(const SumRule& rule)
      : lhs(rule.lhs_zero + rule.lhs_shift, rule.lhs_multiplier, rule.lhs_exponent),
        rhs(rule.rhs_zero + rule.rhs_shift, rule.rhs_multiplier, rule.rhs_exponent),
        negative(rule.negative != 0) {
    for (int i = 0; i < 16; ++i) {
      output.multiplier[i] = output.odd_multiplier[i] = static_cast<int32_t>(rule.output_multiplier);
      output.half_right[i] = static_cast<int32_t>(-rule.output_exponent - 1);
    }
  }
  CALIB8_INLINE __m512i operator()(__m512i left, __m512i right) const {
    const __m512i a = lhs(left), b = rhs(right);
    return multiplied_double(negative ? _mm512_sub_epi32(a, b) : _mm512_add_epi32(a, b), output);
  }
};

// Every row summed by a rule that gives whole numbers from stored codes, before the zero point.
template <class Sum>
inline void sum_rows(const Conv& step, const Rows& rows) {
  const Sum sum(step.sum);
  const __m512i shift = _mm512_set1_epi16(static_cast<int16_t>(step.sum.output_zero + step.sum.output_shift));
  const __m512i low = _mm512_set1_epi8(static_cast<char>(step.sum.low));
  const __m512i high = _mm512_set1_epi8(static_cast<char>(step.sum.high));
  const bool residual_right = step.residual_right != 0;
  for (int64_t i = 0; i < rows.count; ++i) {
    uint8_t* codes = rows.codes + i * kRowBytes;
    const uint8_t* residual = rows.residual + rows.residual_offsets[i];
    __m512i results[4];
    repeat<4>([&](auto j) CALIB8_INLINE {
      const __m512i code = wide_codes(codes + 16 * j), other = wide_codes(residual + 16 * j);
      results[j] = residual_right ? sum(code, other) : sum(other, code);
    });
    const __m512i bytes = packed_codes(results, ShiftedWords<Shift::kAdded>{shift});
    _mm512_store_si512(codes, _mm512_min_epu8(_mm512_max_epu8(bytes, low), high));
  }
}

// The codes summed with the residual, in place.
inline void add_residual(const Conv& step, const Rows& rows) {
  const SumRule& rule = step.sum;
  if (AlignedSum::fits(rule)) return sum_rows<AlignedSum>(step, rows);
  if (ScaledSum::fits(rule)) return sum_rows<ScaledSum>(step, rows);
  const bool right = step.residual_right != 0;
  for (int64_t i = 0; i < rows.count; ++i) {
    uint8_t* codes = rows.codes + i * kRowBytes;
    const uint8_t* residual = rows.residual + rows.residual_offsets[i];
    for (int64_t c = 0; c < rows.channels; ++c) {
      codes[c] = right ? summed(rule, codes[c], residual[c]) : summed(rule, residual[c], codes[c]);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
