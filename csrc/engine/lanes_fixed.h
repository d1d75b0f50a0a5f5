// The fixed-point products of rules.h for a vector of numbers at once.
//
//   double   RDPOT(SRDHM(x << left, m), right)      single   (x·m + 2^(30−s)) >> (31−s), saturated
//   away     the same, ties away from zero
//
// These take any shifts and give results of any size; fixed_factors.h, split_factors.h and
// conv_sums_avx512vnni.h have forms of their own, for constants that a layer prepares and results that
// saturate at 16 bits, where half of the instructions suffice.
#pragma once

#if defined(__aarch64__)
#include "lanes_fixed_neon.h"
#else
#include "lanes_fixed_x86.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <int64_t kKind>
Ints multiply_fixed(Ints x, Ints multiplier, Ints shift) {
  if constexpr (kKind == Rescale::kDouble) return multiply_double(x, multiplier, shift);
  if constexpr (kKind == Rescale::kSingle) return multiply_single(x, multiplier, shift);
  return multiply_away(x, multiplier, shift);
}

}  // namespace
}  // namespace calib8::engine
