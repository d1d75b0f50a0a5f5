// The counts of one tensor, safe to use from several threads.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "forks.h"
#include "histogram.h"

namespace calib8 {

// Slot 0 is always there; threads that count parts of the same tensor again and again have a slot each, so
// that their small counters stay. All members are used with the mutex locked, the slots by one thread each.
// In a child of a fork an accumulator that another thread was counting into has counted a part.
struct TensorAccumulator {
  explicit TensorAccumulator(bool with_bins) : bins(with_bins) {
    counters.push_back(std::make_unique<Counter>());
  }

  // All counts, in slot 0.
  Histogram& settled() {
    Counter& first = *counters.front();
    drain(first);
    for (size_t slot = 1; slot < counters.size(); ++slot) {
      if (counters[slot]->histogram.count == 0) continue;
      drain(*counters[slot]);
      merge(first.histogram, counters[slot]->histogram);
      counters[slot]->histogram = Histogram{};
      counters[slot]->histogram.exponent = first.histogram.exponent;
    }
    return first.histogram;
  }

  // As many slots as `parts`; new ones begin where slot 0 is, which spares them growing.
  void reserve(size_t parts) {
    while (counters.size() < parts) {
      counters.push_back(std::make_unique<Counter>());
      counters.back()->histogram.exponent = counters.front()->histogram.exponent;
    }
  }

  // As if nothing had been counted; the slots stay.
  void clear() {
    for (const std::unique_ptr<Counter>& counter : counters) *counter = Counter{};
  }

  const bool bins;
  ForkMutex mutex;
  std::vector<std::unique_ptr<Counter>> counters;
};

}  // namespace calib8
