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
//
// A sample may lie in several parts, so the extrema of all its pieces are put together at the end.
struct Piece {
  const Work* item;
  int64_t sample;
  Extrema extrema;
};

struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  const Work* continued = nullptr;
  Histogram carried;
  std::vector<Piece> pieces;
};

std::vector<Part> split(const std::vector<Work>& work, int threads) {
  int64_t total = 0;
  for (const Work& item : work) total += item.n;
  const int64_t size = std::clamp<int64_t>(total / kSmallestPart, 1, threads);
  std::vector<Part> parts(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    Part& part = parts[static_cast<size_t>(i)];
    part.begin = total / size * i + std::min(i, total % size);
    part.end = part.begin + total / size + (i < total % size ? 1 : 0);
    int64_t start = 0;
    for (const Work& item : work) {
      if (start < part.begin && part.begin < start + item.n) part.continued = &item;
      start += item.n;
    }
    // Starting where the tensor's own state is spares the carried one its growth; the merge would do it.
    if (part.continued != nullptr) part.carried.exponent = part.continued->state->exponent;
  }
  return parts;
}

// Counts the values first … last − 1 of an item, sample by sample.
void count_item(const Work& item, int64_t first, int64_t last, Histogram& state, const Isa& isa,
                std::vector<Piece>& pieces) {
  const int64_t size = item.n / item.samples;
  while (first < last) {
    const int64_t sample = first / size;
    const int64_t end = std::min(last, (sample + 1) * size);
    pieces.push_back({&item, sample, {}});
    count_values(isa, item.values + first, end - first, state, pieces.back().extrema);
    first = end;
  }
}

void count_part(const std::vector<Work>& work, Part& part, const Isa& isa) {
  int64_t start = 0;
  for (const Work& item : work) {
    const int64_t first = std::max<int64_t>(part.begin - start, 0);
    const int64_t last = std::min(part.end - start, item.n);
    if (first < last) {
      Histogram& state = &item == part.continued ? part.carried : *item.state;
      count_item(item, first, last, state, isa, part.pieces);
    }
    start += item.n;
  }
}

// Pieces of one sample follow each other, in a part and from part to part.
void end_samples(const std::vector<Part>& parts) {
  Piece open = {};
  for (const Part& part : parts) {
    for (const Piece& piece : part.pieces) {
      if (piece.item == open.item && piece.sample == open.sample) {
        widen(open.extrema, piece.extrema);
        continue;
      }
      if (open.item != nullptr) end_sample(*open.item->state, open.extrema);
      open = piece;
    }
  }
  if (open.item != nullptr) end_sample(*open.item->state, open.extrema);
}

}  // namespace

void accumulate(const std::vector<Work>& work, int threads, const Isa& isa) {
  std::vector<Part> parts = split(work, threads);
  run_parts(static_cast<int>(parts.size()),
            [&](int i) { count_part(work, parts[static_cast<size_t>(i)], isa); });
  for (const Part& part : parts) {
    if (part.continued != nullptr) merge(*part.continued->state, part.carried);
  }
  end_samples(parts);
}

}  // namespace calib8
