// The SplitFactors of all channels of a layer (split_factors.h), made once when its plan is opened: a layer
// of one pixel would spend a quarter of its time on them.
#pragma once

#include <cstdint>

namespace calib8::engine {

// Arrays [groups · padded_outputs] of 64-byte aligned float32; null on the side that a layer does not have.
struct SplitSide {
  const float *high, *low, *nudge, *minus;
};

struct SplitRows {
  SplitSide side[2];    // of sums from 0 on, and of those below 0 where they have factors of their own
  const uint8_t* fits;  // per 16 channels: 1 where all of them have such factors

  // Whether `count` channels from `first` on, both multiples of 16, have such factors.
  [[gnu::always_inline]] bool fit(int64_t first, int64_t count) const {
    bool all = true;
    for (int64_t i = first / 16; i < (first + count) / 16; ++i) all = all && fits[i] != 0;
    return all;
  }
};

}  // namespace calib8::engine
