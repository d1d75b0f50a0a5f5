// The static split of many tensors over threads, and the exact merge that makes it invisible.
#include "accumulate.h"

#include <algorithm>
#include <functional>

#include "thread_pool.h"

namespace calib8 {
namespace {

constexpr int64_t kSmallestPart = 16384;

// A contiguous share of all values. Only its first tensor can begin in an earlier part: that piece goes to
// `carried` and is merged afterwards, everything else is counted in place.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  const Work* continued = nullptr;
  Counter carried;
  std::vector<std::vector<Piece>> pieces;  // one list per item
};

std::vector<Part> split(const std::vector<Work>& work, int threads) {
  int64_t total = 0;
  for (const Work& item : work) total += item.spans.values();
  const int64_t size = std::clamp<int64_t>(total / kSmallestPart, 1, threads);
  std::vector<Part> parts(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    Part& part = parts[static_cast<size_t>(i)];
    part.begin = total / size * i + std::min(i, total % size);
    part.end = part.begin + total / size + (i < total % size ? 1 : 0);
    int64_t start = 0;
    for (const Work& item : work) {
      if (start < part.begin && part.begin < start + item.spans.values()) part.continued = &item;
      start += item.spans.values();
    }
    // Starting where the tensor's own state is spares the carried one its growth; the merge would do it.
    if (part.continued != nullptr) {
      part.carried.histogram.exponent = part.continued->counter->histogram.exponent;
    }
    part.pieces.resize(work.size());
  }
  return parts;
}

void count_part(const std::vector<Work>& work, Part& part, const Isa& isa) {
  int64_t start = 0;
  for (size_t i = 0; i < work.size(); ++i) {
    const Work& item = work[i];
    const int64_t first = std::max<int64_t>(part.begin - start, 0);
    const int64_t last = std::min(part.end - start, item.spans.values());
    Counter& counter = &item == part.continued ? part.carried : *item.counter;
    if (first < last) count_range(item.spans, first, last, item.bins, isa, counter, part.pieces[i]);
    start += item.spans.values();
  }
}

}  // namespace

void accumulate(const std::vector<Work>& work, int threads, const Isa& isa) {
  std::vector<Part> parts = split(work, threads);
  run_parts(static_cast<int>(parts.size()),
            [&](int i) { count_part(work, parts[static_cast<size_t>(i)], isa); });
  for (Part& part : parts) {
    if (part.continued == nullptr) continue;
    drain(part.carried);
    drain(*part.continued->counter);
    merge(part.continued->counter->histogram, part.carried.histogram);
  }
  for (size_t i = 0; i < work.size(); ++i) {
    std::vector<Piece> pieces;
    for (const Part& part : parts) pieces.insert(pieces.end(), part.pieces[i].begin(), part.pieces[i].end());
    end_samples(pieces, work[i].counter->histogram);
  }
}

}  // namespace calib8
