// Where the pixels of a block lie, and how threads share a layer.
//
// Everything has internal linkage.
#pragma once

#include "conv_panel_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kLevel2 = 512 << 10;  // bytes of the second-level cache to count on

// Offsets first, first + step, …
inline void fill_offsets(int64_t* offsets, int64_t count, int64_t first, int64_t step) {
  for (int64_t k = 0; k < count; ++k, first += step) offsets[k] = first;
}

// Where the pixels of a block lie; beyond its end the last one again.
inline void place_pixels(const Conv& step, Block block, Scratch& scratch) {
  const View &in = step.input, &out = step.output, &other = step.residual;
  const bool summed = step.sum.kind != SumRule::kNone;
  int64_t column = 0, row = 0, image = 0;
  if (block.begin > 0) {
    column = block.begin % out.columns, row = block.begin / out.columns % out.rows;
    image = block.begin / out.columns / out.rows;
  }
  for (int64_t i = 0; i < block.count;) {
    const int64_t run = least_of(block.count - i, out.columns - column);
    fill_offsets(scratch.inputs + i, run, in.at(image, row * step.row_step, column * step.column_step),
                 step.column_step * in.column_stride);
    fill_offsets(scratch.outputs + i, run, out.at(image, row, column), out.column_stride);
    if (summed) fill_offsets(scratch.residuals + i, run, other.at(image, row, column), other.column_stride);
    i += run, column = 0;
    if (++row == out.rows) row = 0, ++image;
  }
  fill_offsets(scratch.inputs + block.count, kTilePixels, scratch.inputs[block.count - 1], 0);
  fill_offsets(scratch.outputs + block.count, kTilePixels, scratch.outputs[block.count - 1], 0);
  if (summed)
    fill_offsets(scratch.residuals + block.count, kTilePixels, scratch.residuals[block.count - 1], 0);
}

// Threads share the pixels, or the panels where that is more even or spares reading all weights twice.
inline bool split_by_panels(const Conv& step, int parts) {
  if (parts == 1) return false;
  const int64_t units = step.groups * step.panels, pixels = step.output.pixels();
  const int64_t mr = kTilesOf[least_of(4, step.padded_outputs / kLanes)]().pixels;
  const int64_t by_pixels = quotient_up(quotient_up(pixels, parts), mr) * units;
  const int64_t by_panels = quotient_up(pixels, mr) * quotient_up(units, parts);
  const bool large = step.groups * step.weight_bytes > kLevel2;
  return large ? by_panels * 16 <= by_pixels * 17 : by_panels * 8 < by_pixels * 7;
}

}  // namespace
}  // namespace calib8::engine
