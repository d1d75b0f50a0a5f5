// The loop behind every peak_*.cc: the same step over and over on sums that are locals of their own, because
// compilers put arrays of registers into memory.
#pragma once

#include <cstdint>

namespace calib8::engine {
namespace {

// Does `step` to every sum, `rounds` times; returns how many steps that were.
template <class Step, class... Sum>
inline int64_t keep_adding(int64_t rounds, Step step, Sum... sums) {
  for (int64_t round = 0; round < rounds; ++round) (step(sums), ...);
  return rounds * static_cast<int64_t>(sizeof...(sums));
}

}  // namespace
}  // namespace calib8::engine
