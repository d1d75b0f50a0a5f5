// The step of filters over time.
#pragma once

#include "fields.h"

namespace calib8::engine {

// What SVDF layers make of their memory: a unit sums `rank` filters of `taps` values each, which lie side by
// side, as the weights do. Tensors are dense: 16-bit codes [samples, units · taps · rank], codes [samples,
// units].
//
//   acc = (bias + Σ memory · weight) mod 2^32,   code = clamp(double(acc · multiplier · 2^(shift − 31)) +
//   zero)
//
// Sums wrap, as in the kernel that defines them.
struct TimeFilter {
  static constexpr const char* kName = "time_filter";
  int64_t samples, units, length;  // products of a unit: rank · taps
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t weight, bias;  // constants int16 [units, length] and int32 [units]
  int64_t multiplier, shift, zero_point, low, high;

  template <class F>
  void fields(F&& f) {
    f("samples", samples), f("units", units), f("length", length);
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("weight", weight), f("bias", bias), f("multiplier", multiplier), f("shift", shift);
    f("zero_point", zero_point), f("low", low), f("high", high);
  }
};
void check_step(const TimeFilter& step, Limits& limits);

}  // namespace calib8::engine
