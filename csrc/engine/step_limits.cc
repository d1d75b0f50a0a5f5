// What each kind of step touches, and the numbers among its constants that lead elsewhere.
#include <algorithm>

#include "limits.h"

namespace calib8::engine {
namespace {

constexpr int64_t kBlock = 64;  // arrays of channels of a Depthwise step end on a multiple of it
constexpr int64_t kLine = 64;   // packed weights begin on a multiple of it, for kernels load whole vectors
constexpr int64_t kMostGeometry = int64_t{1} << 31;

bool within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

void check_codes(int64_t low, int64_t high) {
  require(within(low, 0, 255) && within(high, 0, 255) && low <= high, "a clamp that is none of codes");
}

void check_fixed(int64_t multiplier, int64_t shift) {
  require(multiplier >= 0 && multiplier <= INT32_MAX && within(shift, -31, 30), "a factor out of range");
}

void check_rescale(const Rescale& rule, const Limits& limits, int64_t count) {
  require(within(rule.kind, Rescale::kNone, Rescale::kAway), "an unknown rescale");
  if (rule.kind == Rescale::kNone) return;
  check_codes(rule.low, rule.high);
  require(within(rule.zero_point, 0, 255), "a zero point that is no code");
  if (rule.kind == Rescale::kFloat) {
    limits.array<float>(rule.factor, count);
    return;
  }
  const auto* multiplier = limits.array<int32_t>(rule.factor, count);
  const auto* shift = limits.array<int32_t>(rule.shift, count);
  for (int64_t i = 0; i < count; ++i) check_fixed(multiplier[i], shift[i]);
}

void check_sum(const SumRule& rule) {
  require(within(rule.kind, SumRule::kFloatSum, SumRule::kAligned), "an unknown sum");
  check_codes(rule.low, rule.high);
  for (const int64_t shift : {rule.lhs_shift, rule.rhs_shift, rule.output_shift}) {
    const bool free = rule.kind == SumRule::kFloatSum && within(shift, 0, 255);
    require(free || shift == 0 || shift == 128, "a shift of codes that is neither 0 nor 128");
  }
  for (const int64_t zero : {rule.lhs_zero, rule.rhs_zero, rule.output_zero}) {
    require(within(zero, -128, 255), "a zero point that is no code");
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

Extent box(const Axes& sizes, const Axes& strides) {
  Extent extent;
  for (int axis = 0; axis < kAxes; ++axis) extent.along(sizes[axis], strides[axis]);
  return extent;
}

// Places of a window relative to its first input pixel, of which every output pixel has one.
Extent windows(const View& input, const View& output, int64_t row_step, int64_t column_step) {
  require(within(row_step, 1, kMostGeometry) && within(column_step, 1, kMostGeometry), "an absurd stride");
  require(within(input.row_stride, 0, kMostGeometry) && within(input.column_stride, 0, kMostGeometry),
          "an absurd stride");
  Extent extent;
  extent.along(output.images, input.image_stride).along(output.rows, row_step * input.row_stride);
  return extent.along(output.columns, column_step * input.column_stride);
}

Extent over_taps(Extent extent, const int64_t* offsets, int64_t taps, int64_t last) {
  const auto [low, high] = std::minmax_element(offsets, offsets + taps);
  require(*low > -kMostGeometry && *high < kMostGeometry, "an absurd tap");
  return extent.moved(*low, *high + last);
}

void check_window(const Window& window, const View& input, const View& output, const Limits& limits) {
  require(within(window.kernel_rows, 1, 4096) && within(window.kernel_columns, 1, 4096), "an absurd window");
  for (const int64_t size :
       {window.row_step, window.column_step, window.row_dilation, window.column_dilation}) {
    require(within(size, 1, 1 << 20), "an absurd window");
  }
  for (const int64_t pad : {window.top, window.left, window.bottom, window.right}) {
    require(within(pad, 0, 1 << 20), "an absurd window");
  }
  require(input.images == output.images && input.channels == output.channels, "a pool that changes channels");
  limits.needs_scratch(input.columns * 64);
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

void check_axis(const Limits& limits, int64_t places, int64_t count, int64_t size) {
  const auto* place = limits.array<int32_t>(places, count);
  for (int64_t i = 0; i < count; ++i) require(within(place[i], 0, size - 1), "a place beside its image");
}

void check_pair(const Pair& pair, Limits& limits, int64_t lhs_size = 1, int64_t rhs_size = 1) {
  limits.reads(pair.lhs_buffer, pair.lhs_offset, box(pair.sizes, pair.lhs_strides), lhs_size);
  limits.reads(pair.rhs_buffer, pair.rhs_offset, box(pair.sizes, pair.rhs_strides), rhs_size);
  limits.writes(pair.output_buffer, pair.output_offset, box(pair.sizes, pair.output_strides));
}

void check_single(const Single& tensors, Limits& limits, int64_t item) {
  limits.reads(tensors.input_buffer, tensors.input_offset, box(tensors.sizes, tensors.input_strides), item);
  limits.writes(tensors.output_buffer, tensors.output_offset, box(tensors.sizes, tensors.output_strides));
}

// Entries of arrays of parameters that repeat (steps.h).
int64_t repeated(const Axes& sizes, int64_t per_channel) {
  const int64_t least = std::max(sizes[kAxes - 1], kRepeated);
  return per_channel == 0 ? 1 : (least + kPadded - 1) / kPadded * kPadded;
}

int64_t item_size(int64_t size) {
  require(size == 1 || size == 4, "elements of another size than codes and sums");
  return size;
}

}  // namespace

void check_step(const FillHalo& step, Limits& limits) {
  const View& view = step.view;
  require(within(view.rows, 1, kMostGeometry) && within(view.columns, 1, kMostGeometry), "an absurd image");
  for (const int64_t width : {step.top, step.left, step.bottom, step.right}) {
    require(within(width, 0, kMostGeometry), "an absurd border");
  }
  require(within(view.row_stride, 0, kMostGeometry) && within(view.column_stride, 0, kMostGeometry),
          "an absurd stride");
  Extent extent;
  extent.along(view.images, view.image_stride).along(view.channels, 1);
  extent.along(view.rows + step.top + step.bottom, view.row_stride);
  extent.along(view.columns + step.left + step.right, view.column_stride);
  const int64_t before = step.top * view.row_stride + step.left * view.column_stride;
  limits.writes(view.buffer, view.offset, extent.moved(-before, -before));
}

void check_step(const Copy& step, Limits& limits) {
  Extent source, target;
  require(within(step.run, 1, kMostGeometry), "an absurd run");
  for (int axis = 0; axis < kAxes; ++axis) {
    const int64_t size = step.sizes[axis];
    target.along(size, step.target_strides[axis]);
    if (step.source_tables[axis] < 0) {
      source.along(size, step.source_strides[axis]);
      continue;
    }
    const auto* table = limits.array<int64_t>(step.source_tables[axis], size);
    const auto [low, high] = std::minmax_element(table, table + size);
    require(*low > -(int64_t{1} << 48) && *high < int64_t{1} << 48, "an absurd place");
    source.moved(*low, *high);
  }
  limits.reads(step.source_buffer, step.source_offset, source.moved(0, step.run - 1));
  limits.writes(step.target_buffer, step.target_offset, target.moved(0, step.run - 1));
}

void check_step(const Quantize& step, Limits& limits) {
  for (const int64_t stride : step.source_strides) require(stride % 4 == 0, "floats that are not aligned");
  require(step.source_offset % 4 == 0, "floats that are not aligned");
  limits.reads(step.source_buffer, step.source_offset, box(step.sizes, step.source_strides).moved(0, 3));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides));
  require(step.shift == 0 || step.shift == 128, "a shift of codes that is neither 0 nor 128");
  require(within(step.low, -128, 255) && within(step.high, -128, 255), "a clamp that is none of codes");
  check_codes(step.low + step.shift, step.high + step.shift);
}

void check_step(const Dequantize& step, Limits& limits) {
  const int64_t item = item_size(step.source_size);
  for (int axis = 0; axis < kAxes; ++axis) {
    require(step.source_strides[axis] % item == 0 && step.target_strides[axis] % 4 == 0 &&
                step.scale_strides[axis] % 4 == 0,
            "elements that are not aligned");
  }
  require(step.source_offset % item == 0 && step.target_offset % 4 == 0 && step.scales % 4 == 0,
          "elements that are not aligned");
  limits.reads(step.source_buffer, step.source_offset,
               box(step.sizes, step.source_strides).moved(0, item - 1));
  limits.reads(kConstants, step.scales, box(step.sizes, step.scale_strides).moved(0, 3));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides).moved(0, 3));
}

void check_step(const Conv& step, Limits& limits) {
  require(step.depth >= 4 && step.depth % 4 == 0, "a depth that is no multiple of 4");
  require(step.outputs >= 1 && step.groups >= 1 && within(step.group_channels, 0, kMostGeometry),
          "absurd channels");
  const auto* offsets = limits.array<int64_t>(step.tap_offsets, step.taps);
  const auto* widths = limits.array<int32_t>(step.panel_widths, step.panels);
  int64_t channels = 0;
  for (int64_t panel = 0; panel < step.panels; ++panel) {
    require(within(widths[panel], 1, 4), "a panel of another width than 1 … 4");
    channels += widths[panel] * int64_t{16};
  }
  require(channels == step.padded_outputs && within(step.outputs, channels - 63, channels),
          "panels of other widths than the outputs");
  Extent all;
  all.along(step.groups, step.padded_outputs);  // proves that products of these do not overflow
  Extent weights;
  weights.along(step.taps, step.depth).along(step.depth, 1).along(step.padded_outputs, 1);
  require(weights.count == step.weight_bytes, "weights of another size");
  Extent block;
  block.along(step.groups, step.weight_bytes).along(step.weight_bytes, 1);
  require(step.weights % kLine == 0, "weights that are not aligned");
  limits.reads(kConstants, step.weights, block);
  const int64_t arrays = step.groups * step.padded_outputs;
  limits.array<int32_t>(step.bias, arrays);
  limits.array<int32_t>(step.weight_sums, arrays);
  check_rescale(step.rescale, limits, arrays);
  check_table(step.table, limits);
  Extent read = windows(step.input, step.output, step.row_step, step.column_step);
  read.along(step.groups, step.group_channels);
  limits.reads(step.input.buffer, step.input.offset, over_taps(read, offsets, step.taps, step.depth - 1));
  require(step.output.channels == step.groups * step.outputs, "other channels than the weights");
  limits.writes(step.output, step.rescale.kind == Rescale::kNone ? 4 : 1);
  const View& residual = step.residual;
  if (step.sum.kind != SumRule::kNone) {
    check_sum(step.sum);
    require(residual.images == step.output.images && residual.rows == step.output.rows &&
                residual.columns == step.output.columns && residual.channels == step.output.channels,
            "a residual of another shape");
    limits.reads(residual);
  } else {
    for (const int64_t number : {residual.images, residual.rows, residual.columns, residual.channels,
                                 residual.image_stride, residual.row_stride, residual.column_stride}) {
      require(number == 0, "a residual without a sum");
    }
  }
  limits.needs_scratch(96 * 64 + 128 * 128 +
                       std::max(int64_t{1} << 18, 6 * (2 * step.taps * step.depth + 160)));
}

void check_step(const Depthwise& step, Limits& limits) {
  require(within(step.multiplier, 1, kMostGeometry) && within(step.layers, 1, 4), "absurd channels");
  const int64_t channels = step.output.channels;
  require(channels == step.input.channels * step.multiplier, "other channels than the input");
  require(step.padded_outputs == (channels + kBlock - 1) / kBlock * kBlock, "arrays of another length");
  for (const int64_t size :
       {step.kernel_rows, step.kernel_columns, step.row_dilation, step.column_dilation}) {
    require(within(size, 1, 1 << 20), "an absurd window");
  }
  const int64_t area = step.kernel_rows * step.kernel_columns * step.layers;
  require(step.taps == (area + 3) / 4 * 4, "another number of taps than the kernel has");
  Extent read = windows(step.input, step.output, step.row_step, step.column_step);
  const auto* offsets = limits.array<int64_t>(step.tap_offsets, step.taps);
  for (int64_t tap = 0; tap < step.taps; ++tap) {
    const int64_t place = tap % (step.kernel_rows * step.kernel_columns);
    const int64_t row = place / step.kernel_columns, column = place % step.kernel_columns;
    const int64_t wanted = offsets[0] + row * step.row_dilation * step.input.row_stride +
                           column * step.column_dilation * step.input.column_stride;
    require(offsets[tap] == (tap < area ? wanted : offsets[0]), "taps beside the kernel");
  }
  limits.reads(step.input.buffer, step.input.offset,
               over_taps(read, offsets, step.taps, step.input.channels - 1));
  require(step.weights % kLine == 0, "weights that are not aligned");
  limits.array<int8_t>(step.weights, Extent().along(step.taps, 1).along(step.padded_outputs, 1).count > 0
                                         ? step.taps * step.padded_outputs
                                         : 0);
  limits.array<int32_t>(step.bias, step.padded_outputs);
  if (step.multiplier > 1) {
    const auto* repeats = limits.array<uint8_t>(step.repeats, step.padded_outputs);
    for (int64_t i = 0; i < step.padded_outputs; ++i) require(repeats[i] < 16, "a place beside its channels");
  }
  check_rescale(step.rescale, limits, step.padded_outputs);
  check_table(step.table, limits);
  limits.writes(step.output, step.rescale.kind == Rescale::kNone ? 4 : 1);
  limits.needs_scratch(std::max(step.taps * kBlock, int64_t{1} << 14));
}

void check_step(const MatMul& step, Limits& limits) {
  Extent lhs, rhs, target;
  lhs.along(step.rows, step.depth).along(step.depth, 1);
  rhs.along(step.depth, step.columns).along(step.columns, 1);
  target.along(step.rows, step.columns).along(step.columns, 1);
  target.along(step.batches, static_cast<int64_t>(target.count));
  for (const auto& [starts, buffer, offset, extent] :
       {std::tuple{step.lhs_starts, step.lhs_buffer, step.lhs_offset, lhs},
        std::tuple{step.rhs_starts, step.rhs_buffer, step.rhs_offset, rhs}}) {
    const auto* start = limits.array<int64_t>(starts, step.batches);
    const auto [low, high] = std::minmax_element(start, start + step.batches);
    require(*low >= 0 && *high < int64_t{1} << 48, "an absurd place");
    limits.reads(buffer, offset, Extent(extent).moved(*low, *high));
  }
  limits.needs_scratch((step.depth + 1) / 2 * 144 + 64);
  check_rescale(step.rescale, limits, 1);
  limits.writes(step.target_buffer, step.target_offset, target, step.rescale.kind == Rescale::kNone ? 4 : 1);
}

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
  require(within(step.kind, 1, 2), "an unknown sum");
  const int64_t count = repeated(step.pair.sizes, step.per_channel);
  limits.array<int32_t>(step.lhs_factor, count);
  limits.array<int32_t>(step.rhs_factor, count);
  if (step.kind == 1) return;
  const auto* shift = limits.array<int32_t>(step.right_shift, count);
  for (int64_t i = 0; i < count; ++i) require(within(shift[i], 1, 62), "a shift out of range");
}

void check_step(const Mul& step, Limits& limits) {
  check_pair(step.pair, limits);
  check_codes(step.low, step.high);
  require(within(step.kind, Rescale::kFloat, Rescale::kAway), "an unknown rescale");
  if (step.kind != Rescale::kFloat) check_fixed(step.multiplier, step.exponent);
}

void check_step(const Extreme& step, Limits& limits) { check_pair(step.pair, limits); }

void check_step(const Lookup& step, Limits& limits) {
  check_single(step.tensors, limits, 1);
  const int64_t tables = step.per_channel == 0 ? 1 : step.tensors.sizes[kAxes - 1];
  limits.array<uint8_t>(step.table, tables * 256);
}

void check_step(const MaxPool& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  check_window(step.window, step.input, step.output, limits);
}

void check_step(const AveragePool& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  check_window(step.window, step.input, step.output, limits);
  check_codes(step.low, step.high);
  require(within(step.kind, AveragePool::kFloat, AveragePool::kFixed), "an unknown mean");
  if (step.kind != AveragePool::kFixed) return;
  require(within(step.rounding, Rescale::kDouble, Rescale::kAway), "an unknown rescale");
  const int64_t taps = step.window.kernel_rows * step.window.kernel_columns;
  const auto* multiplier = limits.array<int32_t>(step.multiplier, taps);
  const auto* exponent = limits.array<int32_t>(step.exponent, taps);
  for (int64_t i = 0; i < taps; ++i) check_fixed(multiplier[i], exponent[i]);
}

void check_step(const Reduce& step, Limits& limits) {
  require(within(step.kind, Reduce::kMean, Reduce::kSmallest), "an unknown reduction");
  Extent read = box(step.outer_sizes, step.outer_strides);
  for (int axis = 0; axis < kAxes; ++axis) read.along(step.inner_sizes[axis], step.inner_strides[axis]);
  require(read.count <= read.high - read.low + 1, "a reduction that reads an element twice");
  limits.reads(step.source_buffer, step.source_offset, read);
  limits.writes(step.target_buffer, step.target_offset, box(step.outer_sizes, step.target_strides),
                step.kind == Reduce::kMean && step.rescale.kind == Rescale::kNone ? 4 : 1);
  if (step.kind == Reduce::kMean) check_rescale(step.rescale, limits, 1);
}

void check_step(const ArgMax& step, Limits& limits) {
  Extent all, outer;
  all.along(step.outer, 1).along(step.length, 1).along(step.inner, 1);
  outer.along(step.outer, 1).along(step.inner, 1);
  limits.reads(step.source_buffer, step.source_offset, Extent().along(static_cast<int64_t>(all.count), 1));
  limits.writes(step.target_buffer, step.target_offset, Extent().along(static_cast<int64_t>(outer.count), 1),
                8);
}

void check_step(const Softmax& step, Limits& limits) {
  require(within(step.kind, Softmax::kFixed, Softmax::kInteger), "an unknown Softmax");
  Extent all;
  all.along(step.rows, step.classes).along(step.classes, 1);
  limits.reads(step.source_buffer, step.source_offset, all);
  limits.writes(step.target_buffer, step.target_offset, all);
  limits.array<int32_t>(step.table, 256);
  limits.needs_scratch((step.classes + 15) / 16 * 256);
}

void check_step(const ResizeLinear& step, Limits& limits) {
  limits.reads(step.input);
  limits.writes(step.output);
  require(step.input.images == step.output.images && step.input.channels == step.output.channels,
          "a Resize that changes channels");
  for (const int64_t places : {step.row_low, step.row_high}) {
    check_axis(limits, places, step.output.rows, step.input.rows);
  }
  for (const int64_t places : {step.column_low, step.column_high}) {
    check_axis(limits, places, step.output.columns, step.input.columns);
  }
  limits.array<int32_t>(step.row_fraction, step.output.rows);
  limits.array<int32_t>(step.column_fraction, step.output.columns);
}

}  // namespace calib8::engine
