// Counting many tensors at once on several threads.
#pragma once

#include <vector>

#include "dispatch.h"

namespace calib8 {

// n values to be counted into `state`: those of `samples` samples (a divisor of n), one after the other.
struct Work {
  Histogram* state;
  const float* values;
  int64_t n;
  int64_t samples;
};

// Counts all of it; the states must be distinct. The values of all tensors, laid end to end, are cut into
// equal contiguous parts, one per thread but none smaller than 16 384 values. The result does not depend on
// the number of threads (1 … 256).
void accumulate(const std::vector<Work>& work, int threads, const Isa& isa);

}  // namespace calib8
