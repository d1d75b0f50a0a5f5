// Rules, tables, windows and operands: what several kinds of steps have in common.
#include "checks.h"

namespace calib8::engine {

void check_codes(int64_t low, int64_t high, int64_t size) {
  const int64_t least = size == 1 ? 0 : INT16_MIN, most = size == 1 ? 255 : INT16_MAX;
  require(within(low, least, most) && within(high, least, most) && low <= high,
          "a clamp that is none of codes");
}

void check_fixed(int64_t multiplier, int64_t shift) {
  require(multiplier >= 0 && multiplier <= INT32_MAX && within(shift, -31, 30), "a factor out of range");
}

void check_rescale(const Rescale& rule, const Limits& limits, int64_t count, int64_t size) {
  require(within(rule.kind, Rescale::kNone, Rescale::kAway), "an unknown rescale");
  if (rule.kind == Rescale::kNone) return;
  check_codes(rule.low, rule.high, size);
  const bool code =
      size == 1 ? within(rule.zero_point, 0, 255) : within(rule.zero_point, INT16_MIN, INT16_MAX);
  require(code, "a zero point that is no code");
  if (rule.kind == Rescale::kFloat) {
    limits.array<float>(rule.factor, count);
    return;
  }
  const auto* multiplier = limits.array<int32_t>(rule.factor, count);
  const auto* shift = limits.array<int32_t>(rule.shift, count);
  for (int64_t i = 0; i < count; ++i) check_fixed(multiplier[i], shift[i]);
}

namespace {

void check_curve(const Activation& curve, const Rescale& rule, const Limits& limits) {
  constexpr int64_t kRows = Activation::kSegments;
  require(rule.zero_point == 0, "a curve with a zero point");
  require(within(curve.shift, 0, Activation::kMostShift), "segments of a width that is none");
  require(
      within(curve.first, INT16_MIN, INT16_MAX) && curve.least() >= INT16_MIN && curve.most() <= INT16_MAX,
      "segments beyond 16 bits");
  require(within(curve.below, -INT16_MAX, INT16_MAX) && within(curve.above, -INT16_MAX, INT16_MAX),
          "a slope beyond 16 bits");
  const auto* rows = limits.array<int16_t>(curve.segments, 3 * kRows);
  require(curve.segments % 64 == 0, "segments that are not aligned");
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t slope = rows[kRows + i], bend = rows[2 * kRows + i];
    const int64_t steepest = (slope < 0 ? -slope : slope) + (bend < 0 ? -bend : bend);
    require(steepest <= INT16_MAX, "a segment that is too steep");
  }
}

}  // namespace

void check_activation(const Activation& activation, const Rescale& rule, const Limits& limits,
                      int64_t count) {
  require(within(activation.kind, Activation::kNone, Activation::kCurve), "an unknown activation");
  const bool two_sided = activation.kind == Activation::kTwoSided;
  require(two_sided || (activation.negative < 0 && activation.negative_shift < 0),
          "factors that nothing reads");
  if (activation.kind == Activation::kNone) return;
  require(rule.kind != Rescale::kNone, "an activation of sums");
  if (activation.kind == Activation::kCurve) return check_curve(activation, rule, limits);
  if (rule.kind == Rescale::kFloat) {
    limits.array<float>(activation.negative, count);
    return;
  }
  const auto* multiplier = limits.array<int32_t>(activation.negative, count);
  const auto* shift = limits.array<int32_t>(activation.negative_shift, count);
  for (int64_t i = 0; i < count; ++i) {
    require(multiplier[i] >= -INT32_MAX, "a factor out of range");
    check_fixed(multiplier[i] < 0 ? -int64_t{multiplier[i]} : multiplier[i], shift[i]);
  }
}

void check_sum(const SumRule& rule, int64_t output_size, int64_t widest) {
  require(within(rule.kind, SumRule::kFloatSum, SumRule::kAligned), "an unknown sum");
  check_codes(rule.low, rule.high, output_size);
  for (const int64_t shift : {rule.lhs_shift, rule.rhs_shift, rule.output_shift}) {
    const bool free = rule.kind == SumRule::kFloatSum && within(shift, 0, 255);
    require(free || shift == 0 || shift == 128, "a shift of codes that is neither 0 nor 128");
  }
  for (const int64_t zero : {rule.lhs_zero, rule.rhs_zero, rule.output_zero}) {
    const bool code = within(zero, -128, 255) || (widest == 2 && within(zero, INT16_MIN, INT16_MAX));
    require(code, "a zero point that is no code");
  }
  if (rule.kind == SumRule::kScaled) {
    require(within(rule.left_shift, 0, 20), "a shift out of range");
    check_fixed(rule.lhs_multiplier, rule.lhs_exponent);
    check_fixed(rule.rhs_multiplier, rule.rhs_exponent);
    check_fixed(rule.output_multiplier, rule.output_exponent);
  } else if (rule.kind == SumRule::kAligned) {
    check_fixed(rule.lhs_multiplier, 0);
    check_fixed(rule.rhs_multiplier, 0);
    require(within(rule.right_shift, 1, 62), "a shift out of range");
  }
}

void check_table(int64_t table, const Limits& limits) {
  if (table >= 0) limits.array<uint8_t>(table, 256);
}

void check_single(const Single& tensors, Limits& limits, int64_t item, int64_t output_size) {
  limits.reads_exactly(tensors.input_buffer, tensors.input_offset, box(tensors.sizes, tensors.input_strides),
                       item);
  limits.writes(tensors.output_buffer, tensors.output_offset, box(tensors.sizes, tensors.output_strides),
                output_size);
}

void check_pair(const Pair& pair, Limits& limits, int64_t lhs_size, int64_t rhs_size, int64_t output_size) {
  limits.reads_exactly(pair.lhs_buffer, pair.lhs_offset, box(pair.sizes, pair.lhs_strides), lhs_size);
  limits.reads_exactly(pair.rhs_buffer, pair.rhs_offset, box(pair.sizes, pair.rhs_strides), rhs_size);
  limits.writes(pair.output_buffer, pair.output_offset, box(pair.sizes, pair.output_strides), output_size);
}

void check_window(const Window& window, const View& input, const View& output) {
  require(within(window.kernel_rows, 1, 4096) && within(window.kernel_columns, 1, 4096), "an absurd window");
  for (const int64_t size :
       {window.row_step, window.column_step, window.row_dilation, window.column_dilation}) {
    require(within(size, 1, 1 << 20), "an absurd window");
  }
  for (const int64_t pad : {window.top, window.left, window.bottom, window.right}) {
    require(within(pad, 0, 1 << 20), "an absurd window");
  }
  require(input.images == output.images && input.channels == output.channels, "a pool that changes channels");
  const auto reaches = [](int64_t start, int64_t taps, int64_t dilation, int64_t size) {
    const int64_t tap = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    return tap < taps && start + tap * dilation < size;
  };
  for (int64_t row = 0; row < output.rows; ++row) {
    require(reaches(row * window.row_step - window.top, window.kernel_rows, window.row_dilation, input.rows),
            "a window beside its image");
  }
  for (int64_t column = 0; column < output.columns; ++column) {
    require(reaches(column * window.column_step - window.left, window.kernel_columns, window.column_dilation,
                    input.columns),
            "a window beside its image");
  }
}

int64_t item_size(int64_t size) {
  require(size == 1 || size == 4, "elements of another size than codes and sums");
  return size;
}

Extent box(const Axes& sizes, const Axes& strides) {
  Extent extent;
  for (int axis = 0; axis < kAxes; ++axis) extent.along(sizes[axis], strides[axis]);
  return extent;
}

}  // namespace calib8::engine
