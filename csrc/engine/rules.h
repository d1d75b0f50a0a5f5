// Sums and codes to codes, one value at a time: every rounding rule in plain arithmetic (docs/numerics.md).
//
//   float    rint(float32(acc) · factor), ties to even          double   RDPOT(SRDHM(acc << left, m), right)
//   single   (acc·m + 2^(30−s)) >> (31−s), ties up              away     the same, ties away from zero
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cmath>
#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

[[maybe_unused]] inline int64_t clamped(int64_t value, int64_t low, int64_t high) {
  return value < low ? low : value > high ? high : value;
}

// SRDHM: (a·b + 2^30) >> 31; b is never INT32_MIN.
[[maybe_unused]] inline int64_t rounding_doubling_high(int64_t a, int64_t b) {
  return (a * b + (int64_t{1} << 30)) >> 31;
}

// RDPOT: x / 2^exponent, ties away from zero.
[[maybe_unused]] inline int64_t rounding_divide(int64_t x, int64_t exponent) {
  const int64_t mask = (int64_t{1} << exponent) - 1;
  return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0) ? 1 : 0);
}

[[maybe_unused]] inline int64_t multiply_double(int64_t x, int64_t multiplier, int64_t shift) {
  const int64_t left = shift > 0 ? shift : 0, right = shift > 0 ? 0 : -shift;
  const int64_t shifted = clamped(x * (int64_t{1} << left), INT32_MIN, INT32_MAX);
  return rounding_divide(rounding_doubling_high(shifted, multiplier), right);
}

[[maybe_unused]] inline int64_t multiply_single(int64_t x, int64_t multiplier, int64_t shift) {
  const int64_t right = 31 - shift;
  return (x * multiplier + (int64_t{1} << (right - 1))) >> right;
}

[[maybe_unused]] inline int64_t multiply_away(int64_t x, int64_t multiplier, int64_t shift) {
  const int64_t right = 31 - shift, product = x * multiplier;
  const int64_t magnitude = ((product < 0 ? -product : product) + (int64_t{1} << (right - 1))) >> right;
  return product < 0 ? -magnitude : magnitude;
}

[[maybe_unused]] inline int64_t multiply_fixed(int64_t kind, int64_t x, int64_t multiplier, int64_t shift) {
  switch (kind) {
    case Rescale::kDouble:
      return multiply_double(x, multiplier, shift);
    case Rescale::kSingle:
      return multiply_single(x, multiplier, shift);
    default:
      return multiply_away(x, multiplier, shift);
  }
}

// A whole number of float32 as a code: clamped before the conversion, so that nothing overflows. NaN gives
// `low`.
[[maybe_unused]] inline int64_t whole_code(float rounded, int64_t shift, int64_t low, int64_t high) {
  const float least = static_cast<float>(low - shift), most = static_cast<float>(high - shift);
  if (!(rounded > least)) return low;
  return rounded > most ? high : static_cast<int64_t>(rounded) + shift;
}

// A float32 result as a code, ties to even; away_code: ties away from zero.
[[maybe_unused]] inline int64_t rounded_code(float value, int64_t shift, int64_t low, int64_t high) {
  return whole_code(std::nearbyint(value), shift, low, high);
}
[[maybe_unused]] inline int64_t away_code(float value, int64_t shift, int64_t low, int64_t high) {
  return whole_code(std::round(value), shift, low, high);
}

[[maybe_unused]] inline uint8_t rescaled(const Rescale& rule, const Memory& memory, int32_t acc,
                                         int64_t channel) {
  if (rule.kind == Rescale::kFloat) {
    const float factor = memory.constant<float>(rule.factor)[channel];
    const float value = static_cast<float>(acc) * factor;
    return static_cast<uint8_t>(rounded_code(value, rule.zero_point, rule.low, rule.high));
  }
  const int64_t multiplier = memory.constant<int32_t>(rule.factor)[channel];
  const int64_t shift = memory.constant<int32_t>(rule.shift)[channel];
  const int64_t value = multiply_fixed(rule.kind, acc, multiplier, shift);
  return static_cast<uint8_t>(clamped(value + rule.zero_point, rule.low, rule.high));
}

// The rescaled sum of a curve, at most 16 bits.
[[maybe_unused]] inline int64_t curve_step(const Rescale& rule, const Memory& memory, int32_t acc,
                                           int64_t channel) {
  if (rule.kind == Rescale::kFloat) {
    const float value = static_cast<float>(acc) * memory.constant<float>(rule.factor)[channel];
    return rounded_code(value, 0, INT16_MIN, INT16_MAX);
  }
  const int64_t multiplier = memory.constant<int32_t>(rule.factor)[channel];
  const int64_t shift = memory.constant<int32_t>(rule.shift)[channel];
  return clamped(multiply_fixed(rule.kind, acc, multiplier, shift), INT16_MIN, INT16_MAX);
}

[[maybe_unused]] inline int64_t saturated16(int64_t value) { return clamped(value, INT16_MIN, INT16_MAX); }
[[maybe_unused]] inline int64_t part16(int64_t a, int64_t b) { return (a * b + (1 << 14)) >> 15; }

// A curve at v; `segments` are its constants.
[[maybe_unused]] inline int64_t curve_value(const Activation& curve, const int16_t* segments, int64_t v) {
  const int64_t u = clamped(v, curve.least(), curve.most()), i = u >> curve.shift;
  const int64_t place = i & (Activation::kSegments - 1);
  const int64_t d = (u - i * (int64_t{1} << curve.shift)) << (15 - curve.shift);
  const int16_t* row = segments + place;
  const int64_t value = row[0], slope = row[Activation::kSegments], bend = row[2 * Activation::kSegments];
  const int64_t inside = saturated16(value + part16(part16(bend, d) + slope, d));
  const int64_t beyond = saturated16(v - u);
  return saturated16(inside + part16(beyond, beyond > 0 ? curve.above : curve.below));
}

// The code of a layer's sum, with the function behind it.
template <class Step>
[[maybe_unused]] inline uint8_t layer_code(const Step& step, const Memory& memory, int32_t acc,
                                           int64_t channel) {
  const Rescale& rule = step.rescale;
  const Activation& activation = step.activation;
  if (activation.kind == Activation::kCurve) {
    const auto* segments = memory.constant<int16_t>(activation.segments);
    const int64_t y = curve_value(activation, segments, curve_step(rule, memory, acc, channel));
    return static_cast<uint8_t>(clamped(y >> Activation::kFractionBits, rule.low, rule.high));
  }
  if (activation.kind == Activation::kTwoSided && acc < 0) {
    Rescale below = rule;
    below.factor = activation.negative, below.shift = activation.negative_shift;
    return rescaled(below, memory, acc, channel);
  }
  return rescaled(rule, memory, acc, channel);
}

// lhs and rhs are codes, stored ones where they have 8 bits; so is the result.
[[maybe_unused]] inline int64_t sum_of(const SumRule& rule, int64_t lhs, int64_t rhs) {
  const int64_t a = lhs - rule.lhs_shift, b = rhs - rule.rhs_shift;
  const int64_t sign = rule.negative != 0 ? -1 : 1;
  switch (rule.kind) {
    case SumRule::kFloatSum: {
      const float inner =
          std::fma(static_cast<float>(b), static_cast<float>(rule.rhs), static_cast<float>(rule.fixed));
      const float value = std::fma(static_cast<float>(a), static_cast<float>(rule.lhs), inner);
      return rounded_code(value, rule.output_shift, rule.low, rule.high);
    }
    case SumRule::kDequantized: {
      const float left = static_cast<float>(rule.lhs) * static_cast<float>(a - rule.lhs_zero);
      const float right = static_cast<float>(rule.rhs) * static_cast<float>(b - rule.rhs_zero);
      const float value = (sign > 0 ? left + right : left - right) / static_cast<float>(rule.output);
      const int64_t zero = rule.output_zero + rule.output_shift;
      return rounded_code(value, zero, rule.low, rule.high);
    }
    case SumRule::kScaled: {
      const int64_t left = multiply_double((a - rule.lhs_zero) * (int64_t{1} << rule.left_shift),
                                           rule.lhs_multiplier, rule.lhs_exponent);
      const int64_t right = multiply_double((b - rule.rhs_zero) * (int64_t{1} << rule.left_shift),
                                            rule.rhs_multiplier, rule.rhs_exponent);
      const int64_t value =
          multiply_double(left + sign * right, rule.output_multiplier, rule.output_exponent);
      return clamped(value + rule.output_zero + rule.output_shift, rule.low, rule.high);
    }
    default: {
      const int64_t sum =
          (a - rule.lhs_zero) * rule.lhs_multiplier + sign * (b - rule.rhs_zero) * rule.rhs_multiplier;
      const int64_t value = (sum + (int64_t{1} << (rule.right_shift - 1))) >> rule.right_shift;
      return clamped(value + rule.output_zero + rule.output_shift, rule.low, rule.high);
    }
  }
}
[[maybe_unused]] inline uint8_t summed(const SumRule& rule, uint8_t lhs, uint8_t rhs) {
  return static_cast<uint8_t>(sum_of(rule, lhs, rhs));
}

}  // namespace
}  // namespace calib8::engine
