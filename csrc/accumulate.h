// Counting many tensors at once on several threads.
#pragma once

#include <vector>

#include "spans.h"

namespace calib8 {

// Values to be counted into `counter`, or measured only.
struct Work {
  Counter* counter;
  Spans spans;
  bool bins;
};

// Counts all of it; the counters must be distinct. The values of all tensors, laid end to end, are cut into
// equal contiguous parts, one per thread but none smaller than 16 384 values. The result does not depend on
// the number of threads (1 … 256).
void accumulate(const std::vector<Work>& work, int threads, const Isa& isa);

}  // namespace calib8
