// What steps on single elements may touch.
#include "elementwise.h"

#include <algorithm>

#include "checks.h"

namespace calib8::engine {
namespace {

// Entries of arrays of parameters that repeat (see Single).
int64_t repeated(const Axes& sizes, int64_t per_channel) {
  const int64_t least = std::max(sizes[kAxes - 1], kRepeated);
  return per_channel == 0 ? 1 : (least + kPadded - 1) / kPadded * kPadded;
}

}  // namespace

void check_step(const Requantize& step, Limits& limits) {
  check_single(step.tensors, limits, 4);
  require(step.rescale.kind != Rescale::kNone, "an unknown rescale");
  check_rescale(step.rescale, limits, repeated(step.tensors.sizes, step.per_channel));
}

void check_step(const Add& step, Limits& limits) {
  check_pair(step.pair, limits);
  check_sum(step.sum);
  check_table(step.table, limits);
}

void check_step(const AddSums& step, Limits& limits) {
  check_pair(step.pair, limits, 4, item_size(step.rhs_size));
  check_codes(step.low, step.high);
  require(within(step.kind, AddSums::kFloat, AddSums::kAligned), "an unknown sum");
  require(within(step.rhs_zero, 0, step.rhs_size == 1 ? 255 : 0) && within(step.zero_point, 0, 255),
          "a zero point that is no code");
  const int64_t count = repeated(step.pair.sizes, step.per_channel);
  limits.array<int32_t>(step.lhs_factor, count);
  limits.array<int32_t>(step.rhs_factor, count);
  if (step.kind == AddSums::kFloat) return;
  const auto* shift = limits.array<int32_t>(step.right_shift, count);
  for (int64_t i = 0; i < count; ++i) require(within(shift[i], 1, 62), "a shift out of range");
}

void check_step(const Mul& step, Limits& limits) {
  check_pair(step.pair, limits);
  check_codes(step.low, step.high);
  require(within(step.kind, Rescale::kFloat, Rescale::kAway), "an unknown rescale");
  require(
      within(step.lhs_zero, 0, 255) && within(step.rhs_zero, 0, 255) && within(step.zero_point, -128, 255),
      "a zero point that is no code");
  require(step.output_shift == 0 || step.output_shift == 128, "a shift of codes that is neither 0 nor 128");
  if (step.kind != Rescale::kFloat) check_fixed(step.multiplier, step.exponent);
}

void check_step(const Div& step, Limits& limits) {
  check_pair(step.pair, limits);
  check_codes(step.low, step.high);
  require(within(step.kind, Div::kFloat, Div::kFixed), "an unknown quotient");
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  require(within(step.lhs_zero, 0, 255), "a zero point that is no code");
  if (step.kind == Div::kFloat) {
    limits.array<float>(step.divisor, Div::kCodes);
    return;
  }
  const auto* multiplier = limits.array<int32_t>(step.multiplier, Div::kCodes);
  const auto* shift = limits.array<int32_t>(step.shift, Div::kCodes);
  for (int64_t i = 0; i < Div::kCodes; ++i) {
    require(multiplier[i] >= -INT32_MAX, "a factor out of range");
    check_fixed(multiplier[i] < 0 ? -int64_t{multiplier[i]} : multiplier[i], shift[i]);
  }
}

void check_step(const RealRescale& step, Limits& limits) {
  check_single(step.tensors, limits, 4);
  check_codes(step.low, step.high);
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  limits.array<float>(step.factor, repeated(step.tensors.sizes, step.per_channel));
}

void check_step(const RealPair& step, Limits& limits) {
  check_pair(step.pair, limits);
  check_codes(step.low, step.high);
  require(within(step.kind, RealPair::kSum, RealPair::kProduct), "an unknown sum");
  for (const int64_t zero : {step.lhs_zero, step.rhs_zero, step.zero_point}) {
    require(within(zero, 0, 255), "a zero point that is no code");
  }
  check_table(step.table, limits);
}

void check_step(const Extreme& step, Limits& limits) { check_pair(step.pair, limits); }

void check_step(const Lookup& step, Limits& limits) {
  check_single(step.tensors, limits, 1);
  const int64_t tables = step.per_channel == 0 ? 1 : step.tensors.sizes[kAxes - 1];
  limits.array<uint8_t>(step.table, tables * 256);
}

}  // namespace calib8::engine
