// Rules of depthwise layers that no form in registers takes: sums of 16 channels, from memory to memory.
#pragma once

#include "depthwise_task.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <class L>
class AnyRule {
 public:
  explicit AnyRule(const Task& task)
      : channels_(task.channels),
        curve_(task.step.activation, task.memory),
        strip_(task.step.rescale, task.step.activation, task.memory, task.channel) {}

  void store(const int32_t* sums, uint8_t* output) const {
    strip_.rows(curve_, sums, kStrip, 1, {output, nullptr, channels_});
  }

 private:
  int64_t channels_;
  CurveRegisters curve_;
  NeonStrip strip_;
};

}  // namespace
}  // namespace calib8::engine
