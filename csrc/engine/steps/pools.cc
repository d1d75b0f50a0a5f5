// What steps over windows and axes may touch.
#include "pools.h"

#include <cmath>
#include <utility>

#include "checks.h"

namespace calib8::engine {
namespace {

void check_axis(const Limits& limits, int64_t places, int64_t count, int64_t size) {
  const auto* place = limits.array<int32_t>(places, count);
  for (int64_t i = 0; i < count; ++i) require(within(place[i], 0, size - 1), "a place beside its image");
}

// Which input rows and columns are read for each of the output.
template <class Step>
void check_neighbours(const Step& step, const Limits& limits, int64_t rows, int64_t columns) {
  for (const int64_t places : {step.row_low, step.row_high}) {
    check_axis(limits, places, rows, step.input.rows);
  }
  for (const int64_t places : {step.column_low, step.column_high}) {
    check_axis(limits, places, columns, step.input.columns);
  }
}

// How far between two neighbours each row or column lies, from `least` to `one`.
template <class Number>
void check_fractions(const Limits& limits, int64_t fractions, int64_t places, Number least, Number one) {
  const auto* fraction = limits.array<Number>(fractions, places);
  for (int64_t i = 0; i < places; ++i) {
    require(fraction[i] >= least && fraction[i] <= one, "a fraction out of range");
  }
}

// Raw zero points of both sides, and what is added to a raw code to store it.
template <class Step>
void check_zeros(const Step& step) {
  require(within(step.input_zero, -128, 255) && within(step.output_zero, -128, 255),
          "a zero point that is no code");
  for (const int64_t shift : {step.input_shift, step.output_shift}) {
    require(shift == 0 || shift == 128, "a shift of codes that is neither 0 nor 128");
  }
}

// A sum of exponentials is no 0 and, with the fraction bits, no more than 63 bits can hold.
void check_exponentials(const Softmax& step, const int32_t* table) {
  if (step.kind == Softmax::kFloat) return;
  const bool fixed = step.kind == Softmax::kFixed;
  const int64_t one = fixed ? INT32_MAX : int64_t{1} << 24;
  for (int i = 0; i < 256; ++i) require(within(table[i], 0, one), "an exponential beyond 0 ... 1");
  require(table[255] > one / 2, "an exponential of 0 that is not 1");
  if (fixed) return;
  require(within(step.integer_factor, 0, int64_t{1} << 37), "a factor of Softmax out of range");
  require(step.fraction_bits == 16 && step.classes <= 1 << 20, "a Softmax out of range");
}

// Every shift is one of 64 bits, and the sum before it stays below 2^63.
void check_fixed_rows(const LayerNorm& step, const Limits& limits) {
  const int64_t channels = step.input.channels;
  const auto* shift = limits.array<int32_t>(step.shift, channels);
  for (int64_t i = 0; i < channels; ++i) require(within(shift[i], 1, 62), "a shift out of range");
  for (const int64_t numbers : {step.factor, step.offset}) {
    const auto* number = limits.array<int32_t>(numbers, channels);
    for (int64_t i = 0; i < channels; ++i) {
      require(number[i] != INT32_MIN, "a factor of a LayerNorm out of range");
    }
  }
  require(within(step.whole_epsilon, 0, int64_t{1} << 62), "an epsilon out of range");
}

// Factors within which products of float32 stay finite.
void check_float_groups(const GroupNorm& step, const Limits& limits) {
  const int64_t channels = step.input.channels;
  const auto* factor = limits.array<float>(step.factor, channels);
  const auto* offset = limits.array<float>(step.offset, channels);
  for (int64_t i = 0; i < channels; ++i) {
    require(std::abs(factor[i]) <= 0x1p64F && std::isfinite(offset[i]),
            "a factor of a GroupNorm out of range");
  }
  require(step.epsilon >= 0, "an epsilon below 0");
}

void check_fixed_groups(const GroupNorm& step, const Limits& limits) {
  const int64_t channels = step.input.channels, codes = step.group_codes();
  for (const int64_t numbers : {step.factor, step.offset}) {
    const auto* number = limits.array<int32_t>(numbers, channels);
    for (int64_t i = 0; i < channels; ++i) {
      require(number[i] != INT32_MIN, "a factor of a GroupNorm out of range");
    }
  }
  for (const int64_t shifts : {step.factor_shift, step.offset_shift}) {
    const auto* shift = limits.array<int32_t>(shifts, channels);
    for (int64_t i = 0; i < channels; ++i) require(within(shift[i], 1, 126), "a shift out of range");
  }
  require(within(step.whole_epsilon, 0, int64_t{1} << 62), "an epsilon out of range");
  int64_t bits = 48;  // the spread is below 2^14·codes²
  for (int64_t size = 1; size < codes; size *= 2) bits -= 2;
  require(within(step.epsilon_bits, 0, bits) && step.epsilon_bits % 2 == 0, "fraction bits out of range");
}

}  // namespace

void check_step(const MaxPool& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  check_window(step.window, step.input, step.output);
}

void check_step(const AveragePool& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  check_window(step.window, step.input, step.output);
  check_codes(step.low, step.high);
  require(within(step.kind, AveragePool::kFloat, AveragePool::kReal), "an unknown mean");
  check_zeros(step);
  if (step.kind != AveragePool::kFixed) return;
  require(within(step.rounding, Rescale::kDouble, Rescale::kAway), "an unknown rescale");
  const int64_t taps = step.window.kernel_rows * step.window.kernel_columns;
  const auto* multiplier = limits.array<int32_t>(step.multiplier, taps);
  const auto* exponent = limits.array<int32_t>(step.exponent, taps);
  for (int64_t i = 0; i < taps; ++i) check_fixed(multiplier[i], exponent[i]);
}

void check_step(const Reduce& step, Limits& limits) {
  require(within(step.kind, Reduce::kMean, Reduce::kLength), "an unknown reduction");
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  Extent read = box(step.outer_sizes, step.outer_strides);
  for (int axis = 0; axis < kAxes; ++axis) read.along(step.inner_sizes[axis], step.inner_strides[axis]);
  require(read.count <= read.high - read.low + 1, "a reduction that reads an element twice");
  limits.reads(step.source_buffer, step.source_offset, read);
  limits.writes(step.target_buffer, step.target_offset, box(step.outer_sizes, step.target_strides));
  if (step.kind == Reduce::kLargest || step.kind == Reduce::kSmallest) return;
  require(step.rescale.kind != Rescale::kNone, "a mean or a length that makes no codes");
  require(step.kind == Reduce::kMean || step.rescale.kind != Rescale::kDouble, "a length of two roundings");
  check_rescale(step.rescale, limits, 1);
}

void check_step(const ArgMax& step, Limits& limits) {
  Extent all, outer;
  all.along(step.outer, 1).along(step.length, 1).along(step.inner, 1);
  outer.along(step.outer, 1).along(step.inner, 1);
  limits.reads(step.source_buffer, step.source_offset, Extent().along(static_cast<int64_t>(all.count), 1));
  require(step.item == 4 || step.item == 8, "an index of another size");
  limits.writes(step.target_buffer, step.target_offset, Extent().along(static_cast<int64_t>(outer.count), 1),
                step.item);
}

void check_step(const Softmax& step, Limits& limits) {
  require(within(step.kind, Softmax::kFixed, Softmax::kReal), "an unknown Softmax");
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  Extent all;
  all.along(step.rows, step.classes).along(step.classes, 1);
  limits.reads(step.source_buffer, step.source_offset, all);
  limits.writes(step.target_buffer, step.target_offset, all);
  if (step.kind == Softmax::kReal) {
    limits.array<float>(step.table, 256 * 256);
    return;
  }
  check_exponentials(step, limits.array<int32_t>(step.table, 256));
}

void check_step(const LayerNorm& step, Limits& limits) {
  const View &in = step.input, &out = step.output;
  limits.reads(in);
  limits.writes(out);
  require(in.images == out.images && in.rows == out.rows && in.columns == out.columns &&
              in.channels == out.channels,
          "a LayerNorm that changes its shape");
  require(within(step.centre, -1, 255), "a centre that is no code");
  const int64_t most = step.centre < 0 ? LayerNorm::kMostChannels : LayerNorm::kMostChannels / 2;
  require(in.channels <= most, "a LayerNorm of too many channels");
  require(within(step.kind, LayerNorm::kFloat, LayerNorm::kFixed), "an unknown LayerNorm");
  check_codes(step.low, step.high);
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  limits.array<int32_t>(step.factor, in.channels);
  limits.array<int32_t>(step.offset, in.channels);
  if (step.kind == LayerNorm::kFixed) return check_fixed_rows(step, limits);
  require(step.epsilon >= 0, "an epsilon below 0");
}

void check_step(const GroupNorm& step, Limits& limits) {
  const View &in = step.input, &out = step.output;
  limits.reads(in);
  limits.writes(out);
  require(in.images == out.images && in.rows == out.rows && in.columns == out.columns &&
              in.channels == out.channels,
          "a GroupNorm that changes its shape");
  require(within(step.groups, 1, in.channels) && in.channels % step.groups == 0, "groups that are none");
  require(step.group_codes() <= GroupNorm::kMostCodes, "a GroupNorm of too many codes");
  require(within(step.kind, GroupNorm::kFloat, GroupNorm::kFixed), "an unknown GroupNorm");
  check_codes(step.low, step.high);
  require(within(step.zero_point, 0, 255), "a zero point that is no code");
  limits.array<int32_t>(step.factor, in.channels);
  limits.array<int32_t>(step.offset, in.channels);
  if (step.kind == GroupNorm::kFixed) return check_fixed_groups(step, limits);
  check_float_groups(step, limits);
}

void check_step(const ResizeLinear& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  require(step.input.images == step.output.images && step.input.channels == step.output.channels,
          "a Resize that changes channels");
  require(within(step.rounding, ResizeLinear::kEven, ResizeLinear::kFloatUp), "an unknown Resize");
  check_zeros(step);
  check_neighbours(step, limits, step.output.rows, step.output.columns);
  const bool up = step.rounding == ResizeLinear::kFloatUp;  // from the first neighbour at the border: below 0
  const bool real = up || step.rounding == ResizeLinear::kEven;
  for (const auto& [fractions, places] : {std::pair{step.row_fraction, step.output.rows},
                                          std::pair{step.column_fraction, step.output.columns}}) {
    if (real) {
      check_fractions(limits, fractions, places, up ? -1.0F : 0.0F, 1.0F);
    } else {
      check_fractions(limits, fractions, places, 0, 1 << 10);
    }
  }
}

void check_step(const ResizeToFloat& step, Limits& limits) {
  limits.reads(step.input);
  require(step.target_offset % 4 == 0 && step.image_stride % 4 == 0 && step.channel_stride % 4 == 0 &&
              step.row_stride % 4 == 0,
          "elements that are not aligned");
  Extent written;
  written.along(step.input.images, step.image_stride).along(step.input.channels, step.channel_stride);
  written.along(step.rows, step.row_stride).along(step.columns, 4).runs(4);
  limits.writes(step.target_buffer, step.target_offset, written);
  check_zeros(step);
  check_neighbours(step, limits, step.rows, step.columns);
  check_fractions(limits, step.row_fraction, step.rows, 0.0F, 1.0F);
  check_fractions(limits, step.column_fraction, step.columns, 0.0F, 1.0F);
}

}  // namespace calib8::engine
