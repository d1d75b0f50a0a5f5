// Softmax: the share that one exponential has of their sum, as a code (docs/numerics.md).
//
//   kFloat     rint(fl(fl(e · factor) / S)) + z_y
//   kInteger   floor((2·e·factor + S·2^f) / (S·2^(f + 1))) + z_y            f fraction bits
//   kReal      round(fl(e / S) / s_y) + z_y, ties away from zero
//   kFixed     RDPOT(SRDHM(1/S, e), …) + z_y                                gemmlowp, e in Q0.31, S in Q12.19
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

[[maybe_unused]] inline int64_t saturating_left_shift(int64_t x, int64_t bits) {
  return clamped(x * (int64_t{1} << bits), INT32_MIN, INT32_MAX);
}

// 1/(1 + a) in Q0.31 of 0 ≤ a < 1 in Q0.31: three steps of Newton's method from 48/17 − 32/17·half.
[[maybe_unused]] inline int64_t one_over_one_plus(int64_t a) {
  const int64_t half = (a + INT32_MAX + 1) / 2;
  int64_t x = 1515870810 + rounding_doubling_high(half, -1010580540);  // Q2.29
  for (int step = 0; step < 3; ++step) {
    const int64_t error = (int64_t{1} << 29) - rounding_doubling_high(half, x);
    x += saturating_left_shift(rounding_doubling_high(x, error), 2);
  }
  return saturating_left_shift(x, 1);
}

// What all shares of one row have in common.
struct RowTotal {
  float real = 0;        // kFloat, kReal: S, added one by one
  int64_t whole = 0;     // kInteger: S; kFixed: S, at most INT32_MAX
  int64_t inverse = 0;   // kFixed: 1/S without its exponent, Q0.31
  int64_t exponent = 0;  // kFixed: right shift of the product
};

[[maybe_unused]] inline void finish_total(const Softmax& step, RowTotal& total) {
  if (step.kind != Softmax::kFixed) return;
  total.whole = total.whole < INT32_MAX ? total.whole : INT32_MAX;
  const int64_t headroom = __builtin_clz(static_cast<unsigned>(total.whole));
  total.inverse = one_over_one_plus((total.whole << headroom) - (int64_t{1} << 31));
  total.exponent = 12 - headroom + 23;
}

// The code of an entry of the table.
[[maybe_unused]] inline uint8_t share_of(const Softmax& step, const Memory& memory, const RowTotal& total,
                                         int64_t entry) {
  if (step.kind == Softmax::kFloat) {
    const float exponential = memory.constant<float>(step.table)[entry];
    const float share = exponential * static_cast<float>(step.factor) / total.real;
    return static_cast<uint8_t>(rounded_code(share, step.zero_point, 0, 255));
  }
  if (step.kind == Softmax::kReal) {
    const float share = memory.constant<float>(step.table)[entry] / total.real;
    return static_cast<uint8_t>(away_code(share / static_cast<float>(step.factor), step.zero_point, 0, 255));
  }
  const int64_t exponential = memory.constant<int32_t>(step.table)[entry];
  if (step.kind == Softmax::kInteger) {
    const int64_t doubled = 2 * exponential * step.integer_factor + (total.whole << step.fraction_bits);
    const int64_t share = doubled / (total.whole << (step.fraction_bits + 1));
    return static_cast<uint8_t>(clamped(share + step.zero_point, 0, 255));
  }
  const int64_t share = rounding_divide(rounding_doubling_high(total.inverse, exponential), total.exponent);
  return static_cast<uint8_t>(clamped(share + step.zero_point, 0, 255));
}

}  // namespace
}  // namespace calib8::engine
