// The mean of a window as a code, one value at a time (docs/numerics.md, AveragePool).
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "rules.h"
#include "windows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// By how much the window of an output pixel is divided, at least 1.
[[maybe_unused]] inline int64_t taps_that_count(const AveragePool& step, int64_t row, int64_t column) {
  const bool pads = step.count_pads != 0;
  const int64_t count = row_axis(step.window, step.input).count(row, pads) *
                        column_axis(step.window, step.input).count(column, pads);
  return count > 1 ? count : 1;
}

// kFloat, of the float32 sum of the taps.
[[maybe_unused]] inline uint8_t average_of_reals(const AveragePool& step, float total, int64_t count) {
  const float ratio = total / static_cast<float>(count) / static_cast<float>(step.output_scale);
  const float value = ratio + static_cast<float>(step.output_zero);
  return static_cast<uint8_t>(rounded_code(value, step.output_shift, step.low, step.high));
}

// kCodes, kFixed and kReal, of Σ (q − z_x).
[[maybe_unused]] inline uint8_t average_of_codes(const AveragePool& step, const Memory& memory, int64_t total,
                                                 int64_t count) {
  if (step.kind == AveragePool::kCodes) {
    const int64_t codes = total + step.input_zero * count, half = count / 2;
    const int64_t mean = codes < 0 ? -((-codes + half) / count) : (codes + half) / count;
    return static_cast<uint8_t>(clamped(mean + step.output_shift, step.low, step.high));
  }
  if (step.kind == AveragePool::kReal) {
    const float real = static_cast<float>(total) * static_cast<float>(step.input_scale);
    const float value = real / static_cast<float>(count) / static_cast<float>(step.output_scale);
    const int64_t zero = step.output_zero + step.output_shift;
    return static_cast<uint8_t>(away_code(value, zero, step.low, step.high));
  }
  const int64_t multiplier = memory.constant<int32_t>(step.multiplier)[count - 1];
  const int64_t exponent = memory.constant<int32_t>(step.exponent)[count - 1];
  const int64_t value = multiply_fixed(step.rounding, total, multiplier, exponent);
  return static_cast<uint8_t>(clamped(value + step.output_zero + step.output_shift, step.low, step.high));
}

}  // namespace
}  // namespace calib8::engine
