// Counting float32 values into bins of any kind: those that another tool makes from a tensor's limit.
//
// A bin of every tool is an interval of float32 values. Their bit patterns, taken as integers in the order of
// the values, are its exact edges, so counting compares integers and no rounding can move a value:
//
//   key(x)      bits of |x|, or for signed values bits with those below the sign flipped where x < 0
//   bin of x    i with edges[i] ≤ key(x) < edges[i + 1]
#pragma once

#include <cstdint>
#include <vector>

namespace calib8 {

// The bins of one tensor.
struct KeyBins {
  std::vector<int32_t> edges;  // n + 1 keys, ascending; equal ones enclose an empty bin
  bool magnitudes;             // keys of |x| instead of x
  double scale, shift;         // guess of the bin of x: scale · |x| (or x) + shift; only speed depends on it
};

// What was counted; sums of counts, so any order and split give the same.
struct KeyCounts {
  std::vector<int64_t> bins;
  int64_t below = 0;    // keys under edges[0]: values that the tool leaves out
  int64_t outside = 0;  // keys from edges[n] on, infinities and NaN: none if the limit was right
};

// n values to be counted.
struct KeyWork {
  const KeyBins* bins;
  KeyCounts* counts;
  const float* values;
  int64_t n;
};

// Counts all of it on up to `threads` threads (1 … 256); the counts must be distinct.
void count_keys(const std::vector<KeyWork>& work, int threads);

}  // namespace calib8
