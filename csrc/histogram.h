// What calibration remembers of one tensor, and the functions that count values into it.
//
//   covered    |x| < 2^exponent
//   bin width  w = 2^(exponent − 12)
//   bin of x   floor(|x| / w), 0 … 4095; positive and negative values apart, exact zeros only in `zeros`
//   growth     by k: new bin j = sum of the old bins j·2^k … (j + 1)·2^k − 1
//
// Since floor(floor(a) / 2^k) = floor(a / 2^k), counting early or late, here or elsewhere, gives the same
// integers: every order of counting and merging ends in the same state, whatever the instruction set.
#pragma once

#include <cstdint>

namespace calib8 {

constexpr int kBins = 4096;
constexpr int kBinBits = 12;
constexpr int kSmallestExponent = -100;  // keeps 2^(12 − exponent) a normal float32; smaller values: bin 0

// Smallest and largest finite value of some values; none yet: +inf and −inf.
struct Extrema {
  float minimum = __builtin_huge_valf();
  float maximum = -__builtin_huge_valf();
};

// A sum of finite float32 values without any rounding: parts[e] is counted in units of 2^(e − 149) and holds
// the signed 24-bit mantissas of all values of that exponent, good for 2^39 values of any size.
struct ExactSum {
  static constexpr int kParts = 254;
  int64_t parts[kParts] = {};
};

// A fresh state is the neutral element of `merge`.
struct Histogram {
  int64_t count = 0;  // all values, NaN and infinities included
  int64_t zeros = 0;  // +0.0 and −0.0
  int64_t nans = 0;
  int64_t positive_infs = 0;
  int64_t negative_infs = 0;
  float minimum = __builtin_huge_valf();   // of the finite values; a zero is stored as +0.0
  float maximum = -__builtin_huge_valf();  // same
  int64_t samples = 0;                     // with at least one finite value
  ExactSum minima;                         // of the samples, each its smallest finite value
  ExactSum maxima;                         // same, largest
  int32_t exponent = kSmallestExponent;    // −100 … 128
  int64_t positive[kBins] = {};            // counts of x > 0
  int64_t negative[kBins] = {};            // counts of x < 0, by magnitude
};

// Small counters that fit in the first-level cache. Bin b of the positive values is at 4096 + b, bin b of
// the negative ones at 4095 − b, so one signed truncation gives the index of either.
struct BinTable {
  uint16_t counts[2 * kBins];
  int32_t filled;  // sum of counts, kept ≤ 65 535 so that no counter can overflow
};

// A histogram on its way: what it stands for is `histogram` with `table` drained into it.
struct Counter {
  Histogram histogram;
  BinTable table = {};
};

// Doubles the covered range until it holds `magnitude` (finite, > 0); drains first.
void grow(Counter& counter, float magnitude);

// Adds `other`; exact, associative and commutative.
void merge(Histogram& state, const Histogram& other);

// Moves the counts of the table to the histogram.
void drain(Counter& counter);

// Makes `extrema` hold those of `more` too.
void widen(Extrema& extrema, const Extrema& more);

// Takes over the extrema of one whole sample; an extremum of −0.0 becomes +0.0. No finite value: no sample.
void end_sample(Histogram& state, const Extrema& sample);

// 2^(12 − exponent): |x| times it, truncated, is the bin. The product is exact wherever it is ≥ 1.
float bin_scale(int32_t exponent);

// Counts n values of any kind, all of one sample, and widens its extrema; `end_sample` takes those over when
// all of the sample is counted. The floating-point environment must be the default one: denormals are
// values, not zeros.
void count_reference(const float* values, int64_t n, Counter& counter, Extrema& sample);
void count_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample);
void count_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample);

// The same without the bins.
void measure_reference(const float* values, int64_t n, Counter& counter, Extrema& sample);
void measure_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample);
void measure_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample);

}  // namespace calib8
