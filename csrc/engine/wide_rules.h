// The rules of steps with 16-bit codes, one value at a time: sums of up to 41 bits, codes of either width.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// multiply_fixed; what a broken plan makes of kSingle wraps.
[[maybe_unused]] inline int64_t multiply_wide(int64_t kind, int64_t x, int64_t multiplier, int64_t shift) {
  if (kind != Rescale::kSingle) return multiply_fixed(kind, x, multiplier, shift);
  const int64_t right = 31 - shift;
  const uint64_t product = static_cast<uint64_t>(x) * static_cast<uint64_t>(multiplier);
  return static_cast<int64_t>(product + (uint64_t{1} << (right - 1))) >> right;
}

[[maybe_unused]] inline int64_t rescaled_wide(const Rescale& rule, const Memory& memory, int64_t acc,
                                              int64_t channel) {
  if (rule.kind == Rescale::kFloat) {
    const float value = static_cast<float>(acc) * memory.constant<float>(rule.factor)[channel];
    return rounded_code(value, rule.zero_point, rule.low, rule.high);
  }
  const int64_t multiplier = memory.constant<int32_t>(rule.factor)[channel];
  const int64_t shift = memory.constant<int32_t>(rule.shift)[channel];
  return clamped(multiply_wide(rule.kind, acc, multiplier, shift) + rule.zero_point, rule.low, rule.high);
}

// The code of a sum, with the function behind it.
[[maybe_unused]] inline int64_t finished(const Rescale& rule, const Activation& activation,
                                         int64_t output_size, const Memory& memory, int64_t acc,
                                         int64_t channel) {
  if (activation.kind == Activation::kCurve) {
    const Rescale steps{rule.kind, rule.factor, rule.shift, 0, INT16_MIN, INT16_MAX};
    const auto* segments = memory.constant<int16_t>(activation.segments);
    const int64_t y = curve_value(activation, segments, rescaled_wide(steps, memory, acc, channel));
    const int64_t code = output_size == 1 ? y >> Activation::kFractionBits : 4 * y + INT16_MIN;
    return clamped(code, rule.low, rule.high);
  }
  if (activation.kind == Activation::kTwoSided && acc < 0) {
    Rescale below = rule;
    below.factor = activation.negative, below.shift = activation.negative_shift;
    return rescaled_wide(below, memory, acc, channel);
  }
  return rescaled_wide(rule, memory, acc, channel);
}

}  // namespace
}  // namespace calib8::engine
