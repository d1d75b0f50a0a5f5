// Convolution and fully connected layers with AVX-512 VNNI: blocks of pixels, panels of channels, register
// tiles.
//
//   for a block of pixels:   for a panel of output channels:   for a tile of the block:   run_tile
//
// Blocks are small where all weights stay in the second-level cache, and as large as that holds where not, so
// that each panel is read from memory once per block.
#include "conv_panel_avx512vnni.h"
#include "kernels_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr int64_t kLevel2 = 512 << 10;  // bytes of the second-level cache to count on

// Offsets first, first + step, …
void fill_offsets(int64_t* offsets, int64_t count, int64_t first, int64_t step) {
  for (int64_t k = 0; k < count; ++k, first += step) offsets[k] = first;
}

// Where the pixels of a block lie; beyond its end the last one again.
void place_pixels(const Conv& step, Block block, Scratch& scratch) {
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
bool split_by_panels(const Conv& step, int parts) {
  if (parts == 1) return false;
  const int64_t units = step.groups * step.panels, pixels = step.output.pixels();
  const int64_t mr = kTilesOf[least_of(4, step.padded_outputs / kLanes)]().pixels;
  const int64_t by_pixels = quotient_up(quotient_up(pixels, parts), mr) * units;
  const int64_t by_panels = quotient_up(pixels, mr) * quotient_up(units, parts);
  const bool large = step.groups * step.weight_bytes > kLevel2;
  return large ? by_panels * 16 <= by_pixels * 17 : by_panels * 8 < by_pixels * 7;
}

// How many pixels of `total` to take together.
int64_t block_pixels(const Conv& step, int64_t units, int64_t total) {
  if (total == 1) return 1;
  const int64_t panel = step.taps * step.depth * least_of(64, step.padded_outputs);
  const int64_t weights = step.weight_bytes / step.panels * units;
  const int64_t pixel = least_of(step.taps * step.depth * step.groups,
                                 step.input.column_stride * step.row_step * step.column_step);
  const int64_t bytes = weights > kLevel2 ? kLevel2 / 2 : panel > (20 << 10) ? 24 << 10 : 96 << 10;
  return least_of(kBlockPixels, most_of(24, bytes / most_of(pixel, 1)));
}

}  // namespace

void conv_avx512vnni(const Conv& step, const Memory& memory, Part part) {
  const bool by_panels = split_by_panels(step, part.count);
  const int64_t all_units = step.groups * step.panels;
  const Part whole{0, 1};
  const Range pixels = share(by_panels ? whole : part, step.output.pixels());
  const Range units = share(by_panels ? part : whole, all_units);
  if (pixels.begin == pixels.end || units.begin == units.end) return;
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  const int64_t total = pixels.end - pixels.begin;
  const int64_t blocks = quotient_up(total, block_pixels(step, units.end - units.begin, total));
  for (int64_t b = 0, first = 0, end = 0; b < blocks; ++b, first = end) {
    end = b + 1 == blocks ? total : total * (b + 1) / blocks;
    const Block block{pixels.begin + first, end - first};
    place_pixels(step, block, scratch);
    Panels panels(step, memory, units.begin);
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const Panel panel = panels.panel();
      if (unit + 1 < all_units) panels.next();
      run_panel(step, memory, panel, panels.panel().weights, block, unit == units.begin);
    }
  }
}

}  // namespace calib8::engine
