// What the step of filters over time may touch.
#include "time_filter.h"

#include "checks.h"

namespace calib8::engine {

void check_step(const TimeFilter& step, Limits& limits) {
  for (const int64_t size : {step.samples, step.units, step.length}) {
    require(within(size, 1, kMostGeometry), "an absurd size");
  }
  const Extent memory = Extent().along(step.samples * step.units, step.length).along(step.length, 1);
  limits.reads_exactly(step.source_buffer, step.source_offset, memory, sizeof(int16_t));
  limits.writes(step.target_buffer, step.target_offset, Extent().along(step.samples * step.units, 1));
  limits.array<int16_t>(step.weight, step.units * step.length);
  limits.array<int32_t>(step.bias, step.units);
  check_fixed(step.multiplier, step.shift);
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  check_codes(step.low, step.high);
}

}  // namespace calib8::engine
