// What a thread does of a depthwise convolution on x86: a block of channels in some of the rows.
#pragma once

#include "depthwise.h"
#include "rules.h"
#include "x86_rescale.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Rows begin … end−1 (counted over all images) of the output channels from `channel` on.
struct Task {
  const Depthwise& step;
  const Memory& memory;
  int64_t channel, channels;  // at most as many as the block is wide
  int64_t begin, end;

  // Where the window of the first output of a row begins, and where its codes go.
  const uint8_t* input(int64_t row) const {
    const View& view = step.input;
    return memory.data<uint8_t>(view) +
           view.at(row / step.output.rows, row % step.output.rows * step.row_step, 0) +
           channel / step.multiplier;
  }
  int64_t place(int64_t row) const {
    return step.output.at(row / step.output.rows, row % step.output.rows, 0) + channel;
  }
  uint8_t* output(int64_t row) const { return memory.data<uint8_t>(step.output) + place(row); }
};

// Codes of a block; beyond `channels` nothing is written.
template <class L>
[[gnu::always_inline]] inline void store_codes(uint8_t* to, typename L::Ints codes, int64_t channels) {
  if (__builtin_expect(channels == L::kChannels, 1)) {
    L::store(to, codes);
  } else {
    L::store_some(to, codes, channels);
  }
}

}  // namespace
}  // namespace calib8::engine
