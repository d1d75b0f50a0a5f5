// Taps: the tensors of a model that are counted while it runs, and what a run left of each.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "spans.h"
#include "tensor_accumulator.h"

namespace calib8 {

// Calls part(context, i) for i = 0 … parts − 1, perhaps at the same time; false where that failed.
using RunParts = std::function<bool(int parts, void (*part)(void* context, size_t i), void* context)>;

// What the latest run left of one tensor.
struct TapRecord {
  std::vector<int64_t> shape;          // as ONNX Runtime has it: channels in blocks are padded ones
  std::vector<uint64_t> fingerprints;  // one per sample, where they were asked for
};

// How the values of a tensor lie. channels = 0: as its shape says; else in blocks of `block` channels, the
// last one perhaps not full.
struct TapLayout {
  int64_t channels = 0;
  int64_t block = 0;
};

class Taps {
 public:
  // Throws std::invalid_argument when CALIB8_ISA names something unknown.
  Taps(std::vector<std::shared_ptr<TensorAccumulator>> accumulators, int threads);

  // What the next run is: how many samples it holds, whether it is counted, whether fingerprints are taken.
  // Not to be called while one is running.
  void begin(int64_t samples, bool count, bool fingerprints);

  // Counts a tensor of this shape at `data`. False where the layout does not fit the shape, or a part did
  // not run. Different taps may count at the same time.
  bool record(size_t index, const float* data, const std::vector<int64_t>& shape, TapLayout layout,
              const RunParts& run);

  // How many taps have recorded since `begin`.
  int64_t fired() const { return fired_; }

  size_t size() const { return accumulators_.size(); }
  const TapRecord& latest(size_t index) const { return records_.at(index); }

 private:
  bool count(TensorAccumulator& accumulator, const Spans& spans, const RunParts& run) const;

  std::vector<std::shared_ptr<TensorAccumulator>> accumulators_;
  std::vector<TapRecord> records_;
  const Isa& isa_;
  int threads_;
  int64_t samples_ = 1;
  bool count_ = true;
  bool fingerprints_ = false;
  std::atomic<int64_t> fired_ = 0;
};

// Makes taps known by a number (> 0) that nodes of a graph can hold, until they are forgotten.
int64_t publish(const std::shared_ptr<Taps>& taps);
void forget(int64_t key);

// The taps of this number, null where there are none (any more).
std::shared_ptr<Taps> published(int64_t key);

}  // namespace calib8
