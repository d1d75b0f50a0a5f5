// The counting of values, one at a time: the definition that the other instruction sets must match.
#include <cmath>

#include "histogram.h"

namespace calib8 {
namespace {

// NaN or an infinity is counted as such; true for a finite value.
bool finite(float value, Histogram& state) {
  if (std::isnan(value)) {
    ++state.nans;
  } else if (std::isinf(value)) {
    ++(value > 0 ? state.positive_infs : state.negative_infs);
  } else {
    return true;
  }
  return false;
}

// A value beyond the covered range widens it.
void count_uncovered(float value, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  if (!finite(value, state)) return;
  const float magnitude = std::fabs(value);
  grow(counter, magnitude);
  ++(value > 0 ? state.positive : state.negative)[static_cast<int>(magnitude * bin_scale(state.exponent))];
  widen(sample, {value, value});
}

}  // namespace

void count_reference(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  float scale = bin_scale(state.exponent);
  float minimum = sample.minimum, maximum = sample.maximum;
  int64_t zeros = 0;
  int64_t* const sides[2] = {state.negative, state.positive};  // indexed: signs are too random to branch on
  for (int64_t i = 0; i < n; ++i) {
    const float value = values[i];
    const float position = std::fabs(value) * scale;
    if (position < kBins) {  // false for NaN
      const bool zero = value == 0.0f;
      zeros += zero;
      sides[value > 0][static_cast<int>(position)] += !zero;
      minimum = value < minimum ? value : minimum;
      maximum = value > maximum ? value : maximum;
    } else {
      count_uncovered(value, counter, sample);
      scale = bin_scale(state.exponent);
    }
  }
  state.count += n;
  state.zeros += zeros;
  widen(sample, {minimum, maximum});
}

void measure_reference(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  for (int64_t i = 0; i < n; ++i) {
    if (!finite(values[i], state)) continue;
    state.zeros += values[i] == 0.0f;
    widen(sample, {values[i], values[i]});
  }
  state.count += n;
}

}  // namespace calib8
