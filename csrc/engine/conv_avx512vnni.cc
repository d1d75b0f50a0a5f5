// Convolution and fully connected layers with AVX-512 VNNI: blocks of pixels, panels of channels, register
// tiles.
//
//   for a block of pixels:   for a panel of output channels:   for a tile of the block:   run_tile
//
// Blocks are small where all weights stay in the second-level cache, and as large as that holds where not, so
// that each panel is read from memory once per block.
#include "conv_rows_avx512vnni.h"
#include "conv_tile_avx512vnni.h"
#include "kernels_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr int64_t kLanes = 16;          // output channels per unit of panel width
constexpr int64_t kBlockPixels = 512;   // most pixels of a block
constexpr int64_t kTilePixels = 16;     // more than any tile has
constexpr int64_t kLevel2 = 512 << 10;  // bytes of the second-level cache to count on
constexpr int64_t kStreamAhead = 4096;  // bytes that a single pixel fetches its weights ahead

// A thread's own memory, as long as emit/conv.py asks for.
struct alignas(64) Scratch {
  uint8_t codes[kTilePixels * kRowBytes];
  int32_t sums[kTilePixels * kRowBytes];
  int64_t inputs[kBlockPixels + kTilePixels];  // offsets of the pixels of a block, the last one repeated
  int64_t outputs[kBlockPixels + kTilePixels];
  int64_t residuals[kBlockPixels + kTilePixels];
};
static_assert(sizeof(Scratch) == 17792, "emit/conv.py says so too");

constexpr int64_t kRowOffsets[kTilePixels] = {0,   64,  128, 192, 256, 320, 384, 448,
                                              512, 576, 640, 704, 768, 832, 896, 960};

using RunTile = void (*)(const Tile&);

// Tiles of a panel width, by number of pixels; a number that has none of its own takes the next larger one.
struct TileSet {
  int64_t pixels;  // the largest
  RunTile run[11];
};

constexpr TileSet kTileSets[5] = {
    {},
    {10,
     {nullptr, run_tile<1, 1>, run_tile<2, 1>, run_tile<4, 1>, run_tile<4, 1>, run_tile<6, 1>, run_tile<6, 1>,
      run_tile<8, 1>, run_tile<8, 1>, run_tile<9, 1>, run_tile<10, 1>}},
    {10,
     {nullptr, run_tile<1, 2>, run_tile<2, 2>, run_tile<4, 2>, run_tile<4, 2>, run_tile<6, 2>, run_tile<6, 2>,
      run_tile<8, 2>, run_tile<8, 2>, run_tile<9, 2>, run_tile<10, 2>}},
    {8,
     {nullptr, run_tile<1, 3>, run_tile<2, 3>, run_tile<4, 3>, run_tile<4, 3>, run_tile<6, 3>, run_tile<6, 3>,
      run_tile<7, 3>, run_tile<8, 3>}},
    {6,
     {nullptr, run_tile<1, 4>, run_tile<2, 4>, run_tile<3, 4>, run_tile<4, 4>, run_tile<5, 4>,
      run_tile<6, 4>}}};

int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A panel of one group.
struct Panel {
  int64_t width;    // in units of 16 channels
  int64_t place;    // of its first channel in the arrays per channel
  int64_t channel;  // its first output channel
  int64_t group;
  const int8_t* weights;
  uint64_t stored;  // bit c: channel c exists
};

// Walks through the panels of all groups.
class Panels {
 public:
  Panels(const Conv& step, const Memory& memory, int64_t first)
      : step_(step), widths_(memory.constant<int32_t>(step.panel_widths)) {
    panel_.group = first / step.panels;
    panel_.weights = memory.constant<int8_t>(step.weights) + panel_.group * step.weight_bytes;
    begin_group();
    for (int64_t i = 0; i < first % step.panels; ++i) next();
  }

  const Panel& panel() const { return panel_; }

  // Weights of groups follow each other, as those of panels do.
  void next() {
    panel_.weights += bytes();
    inside_ += panel_.width * kLanes;
    if (++number_ == step_.panels) {
      ++panel_.group;
      begin_group();
    } else {
      set();
    }
  }

  int64_t bytes() const { return step_.taps * step_.depth * panel_.width * kLanes; }

 private:
  void begin_group() {
    number_ = inside_ = 0;
    set();
  }

  void set() {
    panel_.width = widths_[number_];
    panel_.place = panel_.group * step_.padded_outputs + inside_;
    panel_.channel = panel_.group * step_.outputs + inside_;
    const int64_t left = step_.outputs - inside_;
    const int64_t count = least_of(left, panel_.width * kLanes);
    panel_.stored = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  }

  const Conv& step_;
  const int32_t* widths_;
  int64_t number_ = 0, inside_ = 0;
  Panel panel_{};
};

void prepare_lanes(const int32_t* multiplier, const int32_t* shift, bool single, FixedLanes& lanes) {
  for (int64_t c = 0; c < kLanes; ++c) {
    const int64_t left = multiplier[c] == 0 ? -1 : shift[c];
    lanes.multiplier[c] = multiplier[c];
    lanes.odd_multiplier[c & ~int64_t{1}] = multiplier[c];
    lanes.half_right[c] = static_cast<int32_t>(single ? 0 : -left - 1);
    const int64_t right = 31 - left;
    if (c % 2 == 0) {
      lanes.right[c / 2] = right;
      lanes.round[c / 2] = int64_t{1} << (right - 1);
    } else {
      lanes.odd_right[c / 2] = right - 32;
      lanes.odd_round[c / 2] = int64_t{1} << (right - 1);
    }
  }
}

// How the sums of a panel end. Where its factors are too large for the vector formulas: as sums.
Ending ending_of(const Conv& step, const Memory& memory, const Panel& panel, FixedLanes* lanes) {
  const int64_t channels = panel.width * kLanes;
  const Rescale& rule = step.rescale;
  bool small = true;
  if (rule.kind == Rescale::kFloat) {
    const float* factor = memory.constant<float>(rule.factor) + panel.place;
    for (int64_t c = 0; c < channels; ++c) small = small && factor[c] < 1.0F;
    return small ? Ending::kFloat : Ending::kSums;
  }
  if (rule.kind != Rescale::kSingle && rule.kind != Rescale::kDouble) return Ending::kSums;
  const int32_t* multiplier = memory.constant<int32_t>(rule.factor) + panel.place;
  const int32_t* shift = memory.constant<int32_t>(rule.shift) + panel.place;
  for (int64_t c = 0; c < channels; ++c) small = small && (shift[c] < 0 || multiplier[c] == 0);
  if (!small) return Ending::kSums;
  const bool single = rule.kind == Rescale::kSingle;
  for (int64_t c = 0; c < channels; c += kLanes) {
    prepare_lanes(multiplier + c, shift + c, single, lanes[c / kLanes]);
  }
  return single ? Ending::kSingle : Ending::kDouble;
}

// Pixels begin … end − 1 of the output, and where they lie.
struct Block {
  int64_t begin, count;
};

void place_pixels(const Conv& step, Block block, Scratch& scratch) {
  const View &in = step.input, &out = step.output, &other = step.residual;
  int64_t column = block.begin % out.columns, row = block.begin / out.columns % out.rows;
  int64_t image = block.begin / out.columns / out.rows;
  for (int64_t i = 0; i < block.count;) {
    const int64_t run = least_of(block.count - i, out.columns - column);
    const int64_t input = in.at(image, row * step.row_step, column * step.column_step);
    const int64_t output = out.at(image, row, column), residual = other.at(image, row, column);
    for (int64_t k = 0; k < run; ++k) {
      scratch.inputs[i + k] = input + k * step.column_step * in.column_stride;
      scratch.outputs[i + k] = output + k * out.column_stride;
      scratch.residuals[i + k] = residual + k * other.column_stride;
    }
    i += run, column = 0;
    if (++row == out.rows) row = 0, ++image;
  }
  for (int64_t i = block.count; i < block.count + kTilePixels; ++i) {
    scratch.inputs[i] = scratch.inputs[block.count - 1];
    scratch.outputs[i] = scratch.outputs[block.count - 1];
    scratch.residuals[i] = scratch.residuals[block.count - 1];
  }
}

// Codes of `count` pixels in scratch, perhaps still sums, go on to the output.
void finish_rows(const Conv& step, const Memory& memory, const Panel& panel, bool sums, int64_t first,
                 int64_t count) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  const int64_t channels = least_of(panel.width * kLanes, step.outputs * (panel.group + 1) - panel.channel);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* codes = scratch.codes + i * kRowBytes;
    if (sums) {
      for (int64_t c = 0; c < channels; ++c) {
        codes[c] = rescaled(step.rescale, memory, scratch.sums[i * kRowBytes + c], panel.place + c);
      }
    }
    if (step.sum.kind != SumRule::kNone) {
      const uint8_t* residual = memory.data<uint8_t>(step.residual) + scratch.residuals[first + i];
      add_residual(step, codes, residual + panel.channel, channels);
    }
    if (table != nullptr) {
      for (int64_t c = 0; c < channels; ++c) codes[c] = table[codes[c]];
    }
    uint8_t* output = memory.data<uint8_t>(step.output) + scratch.outputs[first + i] + panel.channel;
    _mm512_mask_storeu_epi8(output, panel.stored, _mm512_load_si512(codes));
  }
}

Tile tile_of(const Conv& step, const Memory& memory, const Panel& panel, const FixedLanes* lanes) {
  Tile tile{};
  tile.input = memory.data<uint8_t>(step.input) + panel.group * step.group_channels;
  tile.taps = memory.constant<int64_t>(step.tap_offsets);
  tile.tap_count = step.taps;
  tile.quads = step.depth / 4;
  tile.weights = panel.weights;
  tile.bias = memory.constant<int32_t>(step.bias) + panel.place;
  tile.factor = memory.constant<float>(step.rescale.factor) + panel.place;
  tile.fixed = lanes;
  tile.zero_point = static_cast<int16_t>(step.rescale.zero_point);
  tile.low = static_cast<uint8_t>(step.rescale.low);
  tile.high = static_cast<uint8_t>(step.rescale.high);
  tile.channels = panel.stored;
  return tile;
}

// One panel times the pixels of a block.
void run_panel(const Conv& step, const Memory& memory, const Panel& panel, const int8_t* next_weights,
               Block block) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  FixedLanes lanes[4];
  Tile tile = tile_of(step, memory, panel, lanes);
  const bool to_sums = step.rescale.kind == Rescale::kNone;
  tile.ending = ending_of(step, memory, panel, lanes);
  const bool sums = tile.ending == Ending::kSums && !to_sums;
  const bool direct = !sums && step.sum.kind == SumRule::kNone && step.table < 0;
  const TileSet& set = kTileSets[panel.width];
  const int64_t tiles = quotient_up(block.count, set.pixels);
  const int64_t slice = tile.tap_count * tile.quads * 64;  // bytes that a tile prefetches
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = block.count * t / tiles, count = block.count * (t + 1) / tiles - first;
    tile.input_offsets = scratch.inputs + first;
    tile.prefetch = t < panel.width ? next_weights + t * slice : panel.weights;
    if (count == 1) tile.prefetch = panel.weights + kStreamAhead;
    if (direct) {
      tile.output_offsets = scratch.outputs + first;
      tile.output = to_sums ? static_cast<void*>(memory.data<int32_t>(step.output) + panel.channel)
                            : memory.data<uint8_t>(step.output) + panel.channel;
    } else {
      tile.output_offsets = kRowOffsets;
      tile.output = sums ? static_cast<void*>(scratch.sums) : scratch.codes;
    }
    set.run[count](tile);
    if (!direct) finish_rows(step, memory, panel, sums, first, count);
  }
}

// Threads share the pixels, or the panels where that is more even or spares reading all weights twice.
bool split_by_panels(const Conv& step, int parts) {
  if (parts == 1) return false;
  const int64_t units = step.groups * step.panels, pixels = step.output.pixels();
  const int64_t mr = kTileSets[least_of(4, step.padded_outputs / kLanes)].pixels;
  const int64_t by_pixels = quotient_up(quotient_up(pixels, parts), mr) * units;
  const int64_t by_panels = quotient_up(pixels, mr) * quotient_up(units, parts);
  const bool large = step.groups * step.weight_bytes > kLevel2;
  return large ? by_panels * 16 <= by_pixels * 17 : by_panels * 8 < by_pixels * 7;
}

// How many pixels to take together.
int64_t block_pixels(const Conv& step, int64_t units) {
  const int64_t panel = step.taps * step.depth * least_of(64, step.padded_outputs);
  const int64_t weights = step.weight_bytes / step.panels * units;
  const int64_t pixel = least_of(step.taps * step.depth * step.groups,
                                 step.input.column_stride * step.row_step * step.column_step);
  const int64_t bytes = weights > kLevel2 ? kLevel2 / 2 : panel > (20 << 10) ? 24 << 10 : 96 << 10;
  return least_of(kBlockPixels, most_of(24, bytes / most_of(pixel, 1)));
}

}  // namespace

void avx512vnni_conv(const Conv& step, const Memory& memory, Part part) {
  const bool by_panels = split_by_panels(step, part.count);
  const int64_t all_units = step.groups * step.panels;
  const Part whole{0, 1};
  const Range pixels = share(by_panels ? whole : part, step.output.pixels());
  const Range units = share(by_panels ? part : whole, all_units);
  if (pixels.begin == pixels.end || units.begin == units.end) return;
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  const int64_t total = pixels.end - pixels.begin;
  const int64_t blocks = quotient_up(total, block_pixels(step, units.end - units.begin));
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t first = total * b / blocks;
    const Block block{pixels.begin + first, total * (b + 1) / blocks - first};
    place_pixels(step, block, scratch);
    Panels panels(step, memory, units.begin);
    for (int64_t unit = units.begin; unit < units.end; ++unit) {
      const Panel panel = panels.panel();
      if (unit + 1 < all_units) panels.next();
      run_panel(step, memory, panel, panels.panel().weights, block);
    }
  }
}

}  // namespace calib8::engine
