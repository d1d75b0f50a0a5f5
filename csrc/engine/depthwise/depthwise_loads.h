// Codes of one tap of depthwise layers.
//
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include "depthwise_task.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Codes of one tap where every input channel serves one output channel.
template <class L>
struct Direct {
  explicit Direct(const Task& task) : apart(task.input_apart()) {}
  typename L::Ints operator()(const uint8_t* from) const { return L::codes(from, apart); }
  int64_t apart;
};

// Where an input channel serves several output channels: each lane repeats bytes of its own 16.
template <class L>
struct Repeated {
  explicit Repeated(const Task& task)
      : places(L::load(task.memory.constant<uint8_t>(task.step.repeats) + task.channel)) {
    for (int l = 0; l < L::kChannels / 16; ++l) {
      first[l] = (task.channel + 16 * l) / task.step.multiplier - task.channel / task.step.multiplier;
    }
  }
  typename L::Ints operator()(const uint8_t* from) const {
    const uint8_t* lanes[L::kChannels / 16];
    for (int l = 0; l < L::kChannels / 16; ++l) lanes[l] = from + first[l];
    return L::shuffle8(L::lanes(lanes), places);
  }
  typename L::Ints places;
  int64_t first[L::kChannels / 16];
};

}  // namespace
}  // namespace calib8::engine
