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

// The bins of one tensor. Slot 0 stands for all keys below the bins, slot n + 1 for all beyond, infinities
// and NaN among them.
struct KeyBins {
  std::vector<int32_t> edges;  // [n + 3]: the least key, the n + 1 edges ascending, the largest key
  bool magnitudes;             // keys of |x| instead of x
  double scale, shift;         // guess of the bin of x: scale · |x| (or x) + shift; only speed depends on it
};

// Counts of each slot [n + 2]; sums of counts, so any order and split give the same.
using KeyCounts = std::vector<int64_t>;

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
