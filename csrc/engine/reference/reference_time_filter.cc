// Filters over time in plain loops: one unit after the other.
#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

// (start + Σ values · weights) mod 2^32.
int32_t wrapped_sum(uint32_t start, const int16_t* values, const int16_t* weights, int64_t length) {
  uint32_t sum = start;
  for (int64_t i = 0; i < length; ++i) {
    sum += static_cast<uint32_t>(int32_t{values[i]} * int32_t{weights[i]});
  }
  return static_cast<int32_t>(sum);
}

}  // namespace

void reference_time_filter(const TimeFilter& step, const Memory& memory, Part part) {
  const auto* source = memory.data<int16_t>(step.source_buffer, step.source_offset);
  auto* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const auto* weight = memory.constant<int16_t>(step.weight);
  const auto* bias = memory.constant<int32_t>(step.bias);
  const Range range = share(part, step.samples * step.units);
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t unit = i % step.units;
    const int32_t sum = wrapped_sum(static_cast<uint32_t>(bias[unit]), source + i * step.length,
                                    weight + unit * step.length, step.length);
    const int64_t code = multiply_double(sum, step.multiplier, step.shift) + step.zero_point;
    target[i] = static_cast<uint8_t>(clamped(code, step.low, step.high));
  }
}

}  // namespace calib8::engine
