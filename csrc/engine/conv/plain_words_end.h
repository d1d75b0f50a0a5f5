// Strips of sums as 16-bit codes in plain loops, for sets without vectors of their own for them.
//
// Everything has internal linkage.
#pragma once

#include "strip_codes.h"
#include "wide_rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Rows of kStrip sums; `output` is that of the first channel, offsets count codes.
struct StripRows {
  const int32_t* sums;
  int64_t stride, count;
  uint8_t* output;
  const int64_t* offsets;
};

class PlainWordsEnd {
 public:
  PlainWordsEnd(const Rescale& rule, const Activation& activation, int64_t, const Memory& memory)
      : rule_(rule), activation_(activation), memory_(memory) {}

  void begin(int64_t place, int64_t, int64_t channels) { place_ = place, channels_ = channels; }

  void rows(const StripRows& rows) const {
    const bool plain = rule_.kind == Rescale::kFloat && activation_.kind == Activation::kNone;
    const StripRescale rescale(plain ? rule_ : Rescale{Rescale::kNone, -1, -1, 0, 0, 0}, memory_, place_);
    for (int64_t row = 0; row < rows.count; ++row) {
      const int32_t* sums = rows.sums + row * rows.stride;
      int16_t codes[kStrip];
      if (plain) {
        float_codes(rescale, sums, codes);
      } else {
        for (int64_t c = 0; c < channels_; ++c) {
          codes[c] = static_cast<int16_t>(finished(rule_, activation_, 2, memory_, sums[c], place_ + c));
        }
      }
      std::memcpy(rows.output + rows.offsets[row] * 2, codes, static_cast<size_t>(channels_) * sizeof *codes);
    }
  }

 private:
  const Rescale& rule_;
  const Activation& activation_;
  const Memory& memory_;
  int64_t place_ = 0, channels_ = 0;
};

}  // namespace
}  // namespace calib8::engine
