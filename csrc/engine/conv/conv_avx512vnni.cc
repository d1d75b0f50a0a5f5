// Convolution and fully connected layers with AVX-512 VNNI: blocks of pixels, panels of channels, register
// tiles.
//
//   for a block of pixels:   for a panel of output channels:   for a tile of the block:   run_tile
//
// Blocks are small where all weights stay in the second-level cache, and as large as that holds where not, so
// that each panel is read from memory once per block.
#include "conv_pixels_avx512vnni.h"
#include "kernels_avx512vnni.h"

namespace calib8::engine {
namespace {

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
