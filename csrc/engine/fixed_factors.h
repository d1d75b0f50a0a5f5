// FixedRescale in numbers of 32 bits, for results that saturate at 16 bits: factors of any shift.
//
//   a = clamp(acc, −most − 1, most) << left         x = (a·m + half) >> 32
//   y = (x + round + (x < 0 ? sign : 0)) >> right
//
// single, r = 31 − shift: y = (acc·m + 2^(r−1)) >> r, with half = sign = 0.
//   r ≥ 33   right = r − 32, round = 2^(right−1): one floor of another by a multiple is the floor of both
//   r < 33   left = 33 − r, then as r = 33
//
// double: x = SRDHM(acc << max(shift, 0), m), with half = 2^31 and left one more for the doubling.
//   e = −shift ≥ 1   right = e, round = 2^(e−1), sign = −1: RDPOT
//   shift ≥ 0        right = round = sign = 0
//
// What is cut off saturates: m is 0 or 2^30 and more, and |acc| ≥ 2^(17−shift) gives results of 2^16 and
// more, and so does any other than 0 from shift 18 on. So a stays below 2^21 where shifts go to the left.
// With double and e ≥ 1 sums have to stay below 2^30: e ≤ 13 gives 2^16 there, layers with larger ones have
// to promise it. No sum of x and round leaves int32: |x| ≤ 2^30, and below 2^30 where round is.
//
// Everything here has internal linkage.
#pragma once

#include <algorithm>
#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

struct alignas(64) FixedFactors {
  int32_t multiplier[64], least[64], most[64], left[64], round[64], sign[64], right[64];
  int64_t half;
};

constexpr int32_t kSafeRight = 13;

// Whether the factors of a channel may be taken; `narrow` promises |acc| < 2^30.
[[maybe_unused]] inline bool takes_factor(int64_t kind, int32_t multiplier, int32_t shift, bool narrow) {
  const int32_t size = multiplier < 0 ? -multiplier : multiplier;
  const bool usual = size == 0 || size >= 1 << 30;
  return usual &&
         (kind == Rescale::kSingle || (kind == Rescale::kDouble && (narrow || shift >= -kSafeRight)));
}

// Constants of one channel; without branches on `shift`, so that loops become vectors.
[[maybe_unused]] inline void set_factor(bool single, int32_t multiplier, int32_t shift, FixedFactors& factors,
                                        int64_t c) {
  const int32_t cut = 1 << std::clamp(17 - shift, 0, 18);
  const int32_t right = single ? std::max(-1 - shift, 1) : std::max(-shift, 0);
  const bool moves = shift >= (single ? -1 : 0);  // to the left
  factors.multiplier[c] = multiplier;
  factors.most[c] = moves ? cut : single ? INT32_MAX : (1 << 30) - 1;
  factors.least[c] = -1 - factors.most[c];
  factors.left[c] = single ? std::clamp(shift + 2, 0, 20) : std::clamp(shift, 0, 19) + 1;
  factors.round[c] = right == 0 ? 0 : 1 << (right - 1);
  factors.sign[c] = single || right == 0 ? 0 : -1;
  factors.right[c] = right;
}

[[maybe_unused]] inline bool fixed_factors(int64_t kind, const int32_t* multiplier, const int32_t* shift,
                                           int64_t channels, bool narrow, FixedFactors& factors) {
  bool taken = true;
  for (int64_t c = 0; c < channels; ++c) {
    taken &= takes_factor(kind, multiplier[c], shift[c], narrow);
    set_factor(kind == Rescale::kSingle, multiplier[c], shift[c], factors, c);
  }
  factors.half = kind == Rescale::kSingle ? 0 : int64_t{1} << 31;
  return taken;
}

}  // namespace
}  // namespace calib8::engine
