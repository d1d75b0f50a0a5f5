// What steps that move may touch.
#include "moves.h"

#include <algorithm>

#include "checks.h"

namespace calib8::engine {

void check_step(const FillHalo& step, Limits& limits) { check_border(step, limits, 1); }

void check_border(const FillHalo& step, Limits& limits, int64_t item) {
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
  limits.writes(view.buffer, view.offset, extent.moved(-before, -before), item);
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
  limits.reads_exactly(step.source_buffer, step.source_offset, source.moved(0, step.run - 1));
  limits.writes(step.target_buffer, step.target_offset, target.runs(step.run));
}

void check_step(const Quantize& step, Limits& limits) {
  for (const int64_t stride : step.source_strides) require(stride % 4 == 0, "floats that are not aligned");
  require(step.source_offset % 4 == 0, "floats that are not aligned");
  limits.reads_exactly(step.source_buffer, step.source_offset,
                       box(step.sizes, step.source_strides).moved(0, 3));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides));
  require(step.shift == 0 || step.shift == 128, "a shift of codes that is neither 0 nor 128");
  require(within(step.low, -128, 255) && within(step.high, -128, 255), "a clamp that is none of codes");
  require(within(step.zero_point, -128, 255), "a zero point that is no code");
  check_codes(step.low + step.shift, step.high + step.shift);
}

void check_step(const Dequantize& step, Limits& limits) {
  const int64_t item = item_size(step.source_size);
  require(item == 1 ? within(step.zero_point, 0, 255) : within(step.zero_point, INT32_MIN, INT32_MAX),
          "a zero point that is no code");
  for (int axis = 0; axis < kAxes; ++axis) {
    require(step.source_strides[axis] % item == 0 && step.target_strides[axis] % 4 == 0 &&
                step.scale_strides[axis] % 4 == 0,
            "elements that are not aligned");
  }
  require(step.source_offset % item == 0 && step.target_offset % 4 == 0 && step.scales % 4 == 0,
          "elements that are not aligned");
  limits.reads_exactly(step.source_buffer, step.source_offset,
                       box(step.sizes, step.source_strides).moved(0, item - 1));
  limits.reads_exactly(kConstants, step.scales, box(step.sizes, step.scale_strides).moved(0, 3));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides).runs(4));
}

}  // namespace calib8::engine
