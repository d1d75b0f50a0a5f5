// Reduce by kLength: the code of the root of a sum of squares (docs/numerics.md).
//
//   S = Σ (q − z)²
//   kFloat           code = rint(fl(fl32(sqrt(S))·factor)) + z_y
//   kSingle, kAway   2^60 ≤ S·4^k < 2^62,   R = ⌊sqrt(S·4^k)⌋,   h = 31 − shift + k
//                    code = ((R·multiplier + 2^(h − 1)) >> h) + z_y;   z_y for S = 0 and for h > 62
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "norms.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The code for S, of 8 or 16 bits.
[[maybe_unused]] inline int64_t length_steps(const Rescale& rule, const Memory& memory, int64_t squares) {
  if (rule.kind == Rescale::kFloat) {
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(squares)));
    const float value = root * *memory.constant<float>(rule.factor);
    return rounded_code(value, rule.zero_point, rule.low, rule.high);
  }
  int64_t steps = 0;
  if (squares != 0) {
    const int64_t k = (__builtin_clzll(static_cast<uint64_t>(squares)) - 2) >> 1;  // 0 … 30
    const int64_t right = 31 - *memory.constant<int32_t>(rule.shift) + k;
    const int64_t product = floor_of_root(squares << (2 * k)) * *memory.constant<int32_t>(rule.factor);
    if (right <= 62) steps = (product + (int64_t{1} << (right - 1))) >> right;
  }
  return clamped(steps + rule.zero_point, rule.low, rule.high);
}

[[maybe_unused]] inline uint8_t length_code(const Reduce& step, const Memory& memory, int64_t squares) {
  return static_cast<uint8_t>(length_steps(step.rescale, memory, squares));
}

}  // namespace
}  // namespace calib8::engine
