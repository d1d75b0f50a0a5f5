// Walking over the values of a tensor, in one run or group by group.
#include "spans.h"

#include <algorithm>
#include <cstring>

namespace calib8 {
namespace {

constexpr int64_t kBuffer = 1024;  // values of groups, put together for the kernels

using Kernel = void (*)(const float*, int64_t, Counter&, Extrema&);

// Calls use(values, n) on the groups' values first … last − 1 of one row, some hundred at a time.
template <class Use>
void gather(const float* groups, const Spans& spans, int64_t first, int64_t last, Use use) {
  float buffer[kBuffer];
  int64_t filled = 0;
  while (first < last) {
    const int64_t lane = first % spans.lanes;
    const int64_t n = std::min({spans.lanes - lane, last - first, kBuffer - filled});
    const float* source = groups + first / spans.lanes * spans.block + lane;
    for (int64_t i = 0; i < n; ++i) buffer[filled + i] = source[i];
    filled += n;
    first += n;
    if (filled == kBuffer || first == last) {
      use(buffer, filled);
      filled = 0;
    }
  }
}

// Calls use(values, n) on the values first … last − 1 of one row.
template <class Use>
void walk(const Spans& spans, int64_t row, int64_t first, int64_t last, Use use) {
  const float* data = spans.data + row * spans.stride;
  const int64_t run = std::min(last, spans.dense);
  if (first < run) use(data + first, run - first);
  if (last > spans.dense) {
    gather(data + spans.dense, spans, std::max(first, spans.dense) - spans.dense, last - spans.dense, use);
  }
}

uint64_t mixed(uint32_t bits) {
  const uint64_t spread = (bits + 1ULL) * 0x9E3779B97F4A7C15ULL;
  return spread ^ spread >> 29;
}

}  // namespace

Spans dense_spans(const float* data, int64_t n, int64_t samples) {
  const int64_t size = n / samples;
  return {data, samples, 1, size, size};
}

void count_range(const Spans& spans, int64_t first, int64_t last, bool bins, const Isa& isa, Counter& counter,
                 std::vector<Piece>& pieces) {
  const DefaultRounding rounding;
  const Kernel kernel = bins ? isa.count : isa.measure;
  const int64_t size = spans.per_row();
  while (first < last) {
    const int64_t row = first / size, start = row * size;
    const int64_t end = std::min(last, start + size);
    Extrema extrema;
    walk(spans, row, first - start, end - start,
         [&](const float* values, int64_t n) { kernel(values, n, counter, extrema); });
    pieces.push_back({row / spans.rows_per_sample, extrema});
    first = end;
  }
}

int64_t cut_near(const Spans& spans, int64_t index) {
  const int64_t size = spans.per_row();
  const int64_t within = index % size;
  return within <= spans.dense ? index : index - (within - spans.dense) % spans.lanes;
}

void end_samples(const std::vector<Piece>& pieces, Histogram& state) {
  for (size_t i = 0; i < pieces.size();) {
    Extrema extrema = pieces[i].extrema;
    const int64_t sample = pieces[i].sample;
    for (++i; i < pieces.size() && pieces[i].sample == sample; ++i) widen(extrema, pieces[i].extrema);
    end_sample(state, extrema);
  }
}

uint64_t fingerprint(const Spans& spans, int64_t sample) {
  uint64_t sum = 0, sums = 0;
  const auto add = [&](const float* values, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i, sizeof bits);
      sum += mixed(bits);
      sums += sum;
    }
  };
  const int64_t first = sample * spans.rows_per_sample;
  for (int64_t row = first; row < first + spans.rows_per_sample; ++row) {
    walk(spans, row, 0, spans.per_row(), add);
  }
  return sum ^ (sums << 32 | sums >> 32);
}

}  // namespace calib8
