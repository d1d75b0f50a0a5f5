// Counting of tapped tensors: which values are valid, who counts which part of them.
#include "taps.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace calib8 {
namespace {

constexpr int64_t kSmallestSplit = 16384;  // fewer values are counted by one thread
constexpr int64_t kCut = 64;               // values; parts begin at multiples where rows allow it

// The spans of a tensor, of no samples where layout and shape contradict each other.
Spans spans_of(const float* data, const std::vector<int64_t>& shape, TapLayout layout, int64_t samples) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  const bool stacked = !shape.empty() && shape[0] > 0 && shape[0] % samples == 0;
  if (!stacked) samples = 1;
  if (layout.channels == 0 || n == 0) return dense_spans(data, n, samples);
  const int64_t block = layout.block, full = layout.channels / block;
  const int64_t partial = layout.channels - full * block;
  if (shape.size() != 4 || shape[1] != (partial == 0 ? full : full + 1) * block) return {};
  if (partial == 0) return dense_spans(data, n, samples);
  const int64_t images = shape[0], area = shape[2] * shape[3];
  return {data, images, images / samples, shape[1] * area, full * block * area, area, partial, block};
}

struct Job {
  const Spans* spans;
  TensorAccumulator* accumulator;
  const Isa* isa;
  std::vector<int64_t> cuts;
  std::vector<std::vector<Piece>> pieces;
};

void count_part(void* context, size_t i) {
  Job& job = *static_cast<Job*>(context);
  count_range(*job.spans, job.cuts[i], job.cuts[i + 1], job.accumulator->bins, *job.isa,
              *job.accumulator->counters[i], job.pieces[i]);
}

// Where the parts of a tensor begin, and its end. Rows that can be shared out evenly are not cut.
std::vector<int64_t> cuts_of(const Spans& spans, int parts) {
  const int64_t n = spans.values();
  const int64_t even = spans.rows % parts == 0 ? 1 : kCut;
  std::vector<int64_t> cuts = {0};
  for (int i = 1; i < parts; ++i) cuts.push_back(cut_near(spans, n * i / parts / even * even));
  cuts.push_back(n);
  return cuts;
}

struct Published {
  ForkMutex mutex;
  std::map<int64_t, std::shared_ptr<Taps>> taps;
  int64_t last = 0;
};

Published& all() {
  static auto* const instance = new Published;  // never destroyed: sessions may outlive everything else
  return *instance;
}

}  // namespace

Taps::Taps(std::vector<std::shared_ptr<TensorAccumulator>> accumulators, int threads)
    : accumulators_(std::move(accumulators)),
      records_(accumulators_.size()),
      isa_(active_isa()),
      threads_(threads) {}

void Taps::begin(int64_t samples, bool count, bool fingerprints) {
  samples_ = samples;
  count_ = count;
  fingerprints_ = fingerprints;
  fired_ = 0;
}

bool Taps::record(size_t index, const float* data, const std::vector<int64_t>& shape, TapLayout layout,
                  const RunParts& run) {
  if (index >= accumulators_.size()) return false;
  const Spans spans = spans_of(data, shape, layout, samples_);
  if (spans.rows == 0) return false;
  TensorAccumulator& accumulator = *accumulators_[index];
  const std::lock_guard<ForkMutex> lock(accumulator.mutex);
  TapRecord& record = records_[index];
  ++fired_;
  record.shape = shape;
  if (fingerprints_) {
    record.fingerprints.clear();
    for (int64_t i = 0; i < spans.samples(); ++i) record.fingerprints.push_back(fingerprint(spans, i));
  }
  return !count_ || count(accumulator, spans, run);
}

bool Taps::count(TensorAccumulator& accumulator, const Spans& spans, const RunParts& run) const {
  const int64_t n = spans.values();
  if (n == 0) return true;
  const int parts = n < kSmallestSplit ? 1 : threads_;
  accumulator.reserve(static_cast<size_t>(parts));
  Job job = {&spans, &accumulator, &isa_, cuts_of(spans, parts), {}};
  job.pieces.resize(static_cast<size_t>(parts));
  if (parts == 1) {
    count_part(&job, 0);
  } else if (!run(parts, count_part, &job)) {
    return false;
  }
  for (int i = 1; i < parts; ++i) {
    const std::vector<Piece>& more = job.pieces[static_cast<size_t>(i)];
    job.pieces[0].insert(job.pieces[0].end(), more.begin(), more.end());
  }
  end_samples(job.pieces[0], accumulator.counters.front()->histogram);
  return true;
}

int64_t publish(const std::shared_ptr<Taps>& taps) {
  const std::lock_guard<ForkMutex> lock(all().mutex);
  all().taps[++all().last] = taps;
  return all().last;
}

void forget(int64_t key) {
  const std::lock_guard<ForkMutex> lock(all().mutex);
  all().taps.erase(key);
}

std::shared_ptr<Taps> published(int64_t key) {
  const std::lock_guard<ForkMutex> lock(all().mutex);
  const auto found = all().taps.find(key);
  return found == all().taps.end() ? nullptr : found->second;
}

}  // namespace calib8
