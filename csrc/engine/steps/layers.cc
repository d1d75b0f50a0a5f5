// What steps that multiply may touch.
#include "layers.h"

#include <algorithm>
#include <tuple>

#include "checks.h"

namespace calib8::engine {
namespace {

constexpr int64_t kBlock = 64;  // arrays of channels of a Depthwise step end on a multiple of it
constexpr int64_t kLine = 64;   // packed weights begin on a multiple of it, for kernels load whole vectors

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

}  // namespace

void check_layer(const Conv& step, Limits& limits, int64_t input_size, int64_t output_size) {
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
  check_rescale(step.rescale, limits, arrays, output_size);
  check_activation(step.activation, step.rescale, limits, arrays);
  require(step.activation.kind == Activation::kNone || step.sum.kind == SumRule::kNone,
          "a sum behind an activation");
  check_table(step.table, limits);
  Extent read = windows(step.input, step.output, step.row_step, step.column_step);
  read.along(step.groups, step.group_channels);
  limits.reads(step.input.buffer, step.input.offset, over_taps(read, offsets, step.taps, step.depth - 1),
               input_size);
  require(step.output.channels == step.groups * step.outputs, "other channels than the weights");
  limits.writes(step.output, step.rescale.kind == Rescale::kNone ? 4 : output_size);
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
}

void check_layer(const Depthwise& step, Limits& limits, int64_t input_size, int64_t output_size) {
  require(within(step.multiplier, 1, kMostGeometry) && within(step.layers, 1, 4) &&
              within(step.input.channels, 1, kMostGeometry),
          "absurd channels");
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
  const bool square = step.kernel_columns > 1;  // no kernel counts on where the rows of another window lie
  for (int64_t tap = 0; square && tap < step.taps; ++tap) {
    const int64_t place = tap % (step.kernel_rows * step.kernel_columns);
    const int64_t row = place / step.kernel_columns, column = place % step.kernel_columns;
    const int64_t wanted = offsets[0] + row * step.row_dilation * step.input.row_stride +
                           column * step.column_dilation * step.input.column_stride;
    require(offsets[tap] == (tap < area ? wanted : offsets[0]), "taps beside the kernel");
  }
  limits.reads(step.input.buffer, step.input.offset,
               over_taps(read, offsets, step.taps, step.input.channels - 1), input_size);
  require(step.weights % kLine == 0, "weights that are not aligned");
  limits.array<int8_t>(step.weights, Extent().along(step.taps, 1).along(step.padded_outputs, 1).count > 0
                                         ? step.taps * step.padded_outputs
                                         : 0);
  limits.array<int32_t>(step.bias, step.padded_outputs);
  if (step.multiplier > 1) {
    const auto* repeats = limits.array<uint8_t>(step.repeats, step.padded_outputs);
    for (int64_t i = 0; i < step.padded_outputs; ++i) require(repeats[i] < 16, "a place beside its channels");
  }
  check_rescale(step.rescale, limits, step.padded_outputs, output_size);
  const bool sums = step.rescale.kind == Rescale::kNone;
  require(within(step.narrow, 0, sums ? 0 : Depthwise::kAnyShift), "bounds of sums that nothing rescales");
  check_activation(step.activation, step.rescale, limits, step.padded_outputs);
  check_table(step.table, limits);
  limits.writes(step.output, sums ? 4 : output_size);
}

void check_step(const Conv& step, Limits& limits) { check_layer(step, limits); }
void check_step(const Depthwise& step, Limits& limits) { check_layer(step, limits); }

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
  require(within(step.lhs_zero, 0, 255) && within(step.rhs_zero, 0, 255), "a zero point that is no code");
  check_rescale(step.rescale, limits, 1);
  limits.writes(step.target_buffer, step.target_offset, target, step.rescale.kind == Rescale::kNone ? 4 : 1);
}

}  // namespace calib8::engine
