// What the convolutions that take strips with AVX2 have in common, ends in 16-bit codes included.
#pragma once

#include "strip_avx2.h"
#include "wide/sums_end.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

struct StripSumsWithWords : StripSums {
  struct WordsEnd : SumsEnd {
    WordsEnd(const Rescale& rule, const Activation& activation, int64_t output_size, const Memory& memory)
        : SumsEnd(rule, activation, output_size, memory, Order::kChannels) {}
  };
};

}  // namespace
}  // namespace calib8::engine
