// Growing, merging and draining of histograms: the integer side of the statistics.
#include "histogram.h"

#include <cmath>
#include <cstring>

namespace calib8 {
namespace {

void fold_bins(int64_t* bins, int shift) {
  if (shift > kBinBits) shift = kBinBits;
  const int step = 1 << shift;
  for (int j = 0; j < kBins / step; ++j) {
    int64_t sum = 0;
    for (int i = 0; i < step; ++i) sum += bins[j * step + i];
    bins[j] = sum;
  }
  std::memset(bins + kBins / step, 0, sizeof(int64_t) * (kBins - kBins / step));
}

void grow_to(Histogram& state, int32_t exponent) {
  if (exponent <= state.exponent) return;
  fold_bins(state.positive, exponent - state.exponent);
  fold_bins(state.negative, exponent - state.exponent);
  state.exponent = exponent;
}

// The bits of a finite float32 are its mantissa (with a leading one, but for denormals) and its exponent.
void add(ExactSum& sum, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const int biased = bits >> 23 & 0xff;
  const int64_t fraction = bits & 0x7fffff;
  const int64_t mantissa = biased == 0 ? fraction : fraction | 0x800000;
  sum.parts[biased == 0 ? 0 : biased - 1] += bits >> 31 ? -mantissa : mantissa;
}

void add(ExactSum& sum, const ExactSum& other) {
  for (int i = 0; i < ExactSum::kParts; ++i) sum.parts[i] += other.parts[i];
}

void widen(Histogram& state, float minimum, float maximum) {
  if (minimum < state.minimum) state.minimum = minimum + 0.0f;
  if (maximum > state.maximum) state.maximum = maximum + 0.0f;
}

// Four counters at a time are tested for "nothing there": most tensors leave much of the table empty.
bool four_empty(const uint16_t* counts) {
  uint64_t word;
  std::memcpy(&word, counts, sizeof word);
  return word == 0;
}

}  // namespace

void grow(Counter& counter, float magnitude) {
  int exponent = 0;
  (void)std::frexp(magnitude, &exponent);
  drain(counter);
  grow_to(counter.histogram, exponent);
}

void merge(Histogram& state, const Histogram& other) {
  grow_to(state, other.exponent);
  const int shift = state.exponent - other.exponent < kBinBits ? state.exponent - other.exponent : kBinBits;
  for (int i = 0; i < kBins; ++i) {
    state.positive[i >> shift] += other.positive[i];
    state.negative[i >> shift] += other.negative[i];
  }
  state.count += other.count;
  state.zeros += other.zeros;
  state.nans += other.nans;
  state.positive_infs += other.positive_infs;
  state.negative_infs += other.negative_infs;
  widen(state, other.minimum, other.maximum);
  state.samples += other.samples;
  add(state.minima, other.minima);
  add(state.maxima, other.maxima);
}

void drain(Counter& counter) {
  BinTable& table = counter.table;
  Histogram& state = counter.histogram;
  if (table.filled == 0) return;
  for (int i = 0; i < kBins; i += 4) {
    const uint16_t* counts = table.counts + kBins + i;
    if (four_empty(counts)) continue;
    for (int j = 0; j < 4; ++j) state.positive[i + j] += counts[j];
  }
  for (int i = 0; i < kBins; i += 4) {
    const uint16_t* counts = table.counts + kBins - 4 - i;
    if (four_empty(counts)) continue;
    for (int j = 0; j < 4; ++j) state.negative[i + j] += counts[3 - j];
  }
  std::memset(&table, 0, sizeof table);
}

void widen(Extrema& extrema, const Extrema& more) {
  if (more.minimum < extrema.minimum) extrema.minimum = more.minimum;
  if (more.maximum > extrema.maximum) extrema.maximum = more.maximum;
}

void end_sample(Histogram& state, const Extrema& sample) {
  if (sample.minimum > sample.maximum) return;
  widen(state, sample.minimum, sample.maximum);
  ++state.samples;
  add(state.minima, sample.minimum);
  add(state.maxima, sample.maximum);
}

float bin_scale(int32_t exponent) { return std::ldexp(1.0f, kBinBits - exponent); }

}  // namespace calib8
