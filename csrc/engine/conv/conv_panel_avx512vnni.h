// A panel of output channels times a block of pixels: which tiles, what follows their codes in memory.
//
// Everything has internal linkage.
#pragma once

#include "conv_endings_avx512vnni.h"
#include "conv_rows_avx512vnni.h"
#include "strip_avx2.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kStreamAhead = 4096;  // bytes that a single pixel fetches its weights ahead

using Scratch = PanelScratch;

constexpr int64_t kRowOffsets[kTilePixels] = {0,   64,  128, 192, 256, 320, 384, 448,
                                              512, 576, 640, 704, 768, 832, 896, 960};

// By units of panel width.
using TilesOf = const TileSet& (*)();
using FlowsOf = const FlowSet& (*)();
constexpr TilesOf kTilesOf[5] = {nullptr, conv_tiles16_avx512vnni, conv_tiles32_avx512vnni,
                                 conv_tiles48_avx512vnni, conv_tiles64_avx512vnni};
constexpr FlowsOf kFlowsOf[5] = {nullptr, conv_flows16_avx512vnni, conv_flows32_avx512vnni,
                                 conv_flows48_avx512vnni, conv_flows64_avx512vnni};

inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most_of(int64_t a, int64_t b) { return a > b ? a : b; }
inline int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A panel of one group.
struct Panel {
  int64_t width;    // in units of 16 channels
  int64_t place;    // of its first channel in the arrays per channel
  int64_t channel;  // its first output channel
  int64_t group;
  const int8_t* weights;
  int64_t count;    // channels that exist
  uint64_t stored;  // bit c: channel c is one of them
};

// Walks through the panels of all groups.
class Panels {
 public:
  Panels(const Conv& step, const Memory& memory, int64_t first)
      : step_(step), widths_(memory.constant<int32_t>(step.panel_widths)) {
    panel_.group = first == 0 ? 0 : first / step.panels;
    panel_.weights = memory.constant<int8_t>(step.weights) + panel_.group * step.weight_bytes;
    begin_group();
    for (int64_t i = panel_.group * step.panels; i < first; ++i) next();
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
    panel_.count = least_of(step_.outputs - inside_, panel_.width * kLanes);
    panel_.stored = panel_.count == 64 ? ~uint64_t{0} : (uint64_t{1} << panel_.count) - 1;
  }

  const Conv& step_;
  const int32_t* widths_;
  int64_t number_ = 0, inside_ = 0;
  Panel panel_{};
};

// Pixels begin … begin + count − 1 of the output.
struct Block {
  int64_t begin, count;
};

// How the codes of a panel reach the output.
struct Way {
  Ending ending;
  bool rescale;   // sums come out of the tiles and become codes in rows
  bool residual;  // the residual is added in rows
  bool table;     // the table is applied in rows, not by the tiles

  bool direct() const { return !rescale && !residual && !table; }
};

inline Way way_of(const Conv& step, const Memory& memory, const Panel& panel, FixedPanel& fixed) {
  if (step.rescale.kind == Rescale::kNone) return {Ending::kSums, false, false, false};
  const Ending ending = ending_of(step, memory, {panel.place, panel.width * kLanes}, fixed);
  const bool residual = step.sum.kind != SumRule::kNone && !sums_up(ending);
  const bool rescale = ending == Ending::kSums, by_tiles = looks_up_in_registers();
  return {ending, rescale, residual, step.table >= 0 && (rescale || residual || !by_tiles)};
}

// Sums of `count` pixels in scratch become codes, 16 channels at a time.
inline void rescale_rows(const Conv& step, const Memory& memory, const Panel& panel, int64_t count) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  const CurveTable curve(step.activation, memory);
  for (int64_t first = 0; first < panel.width * kLanes; first += kLanes) {
    const int64_t place = panel.place + first;
    const FixedStrip fixed(step.rescale, step.activation, memory, place);
    if (fixed.taken()) {
      fixed.rows(curve, scratch.sums + first, kRowBytes, count, {scratch.codes + first, kRowOffsets, kLanes});
    } else if (step.activation.kind != Activation::kNone) {
      const StripActivation<StripSums> strip(step.rescale, step.activation, memory, place);
      for (int64_t i = 0; i < count; i += 2) {
        const int64_t a = i * kRowBytes + first, b = i + 1 < count ? a + kRowBytes : a;
        strip.codes(curve, scratch.sums + a, scratch.sums + b, scratch.codes + a, scratch.codes + b);
      }
    } else {
      for (int64_t i = first; i < count * kRowBytes; i += kRowBytes) {
        for (int64_t c = 0; c < kLanes && first + c < panel.count; ++c) {
          scratch.codes[i + c] = rescaled(step.rescale, memory, scratch.sums[i + c], place + c);
        }
      }
    }
  }
}

// Rows of `count` pixels in scratch, from pixel `first` of the block on, go on to the output.
inline void finish_rows(const Conv& step, const Memory& memory, const Panel& panel, Way way, int64_t first,
                        int64_t count) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  if (way.rescale) rescale_rows(step, memory, panel, count);
  if (way.residual) {
    const uint8_t* residual = memory.data<uint8_t>(step.residual) + panel.channel;
    add_residual(step, {scratch.codes, residual, scratch.residuals + first, count, panel.count});
  }
  if (way.table) {
    look_up(memory.constant<uint8_t>(step.table), scratch.codes, scratch.codes, count * kRowBytes);
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* codes = scratch.codes + i * kRowBytes;
    uint8_t* output = memory.data<uint8_t>(step.output) + scratch.outputs[first + i] + panel.channel;
    _mm512_mask_storeu_epi8(output, panel.stored, _mm512_load_si512(codes));
  }
}

inline SumLanes sum_lanes(const Conv& step) {
  constexpr float kRound = 12582912;  // 1.5 · 2^23: adding it rounds to whole numbers, ties to even
  const SumRule& sum = step.sum;
  const Rescale& rule = step.rescale;
  const bool right = step.residual_right != 0;
  const int64_t code_shift = right ? sum.lhs_shift : sum.rhs_shift;
  SumLanes lanes{};
  lanes.lhs = static_cast<float>(sum.lhs);
  lanes.rhs = static_cast<float>(sum.rhs);
  lanes.fixed = static_cast<float>(sum.fixed);
  lanes.least = static_cast<float>(rule.low - rule.zero_point);
  lanes.most = static_cast<float>(rule.high - rule.zero_point);
  lanes.round = kRound;
  lanes.unrounded = kRound - static_cast<float>(rule.zero_point - code_shift);
  lanes.residual_shift = static_cast<int32_t>(right ? sum.rhs_shift : sum.lhs_shift);
  return lanes;
}

inline Tile tile_of(const Conv& step, const Memory& memory, const Panel& panel, Ending ending,
                    const FixedPanel& fixed) {
  Tile tile{};
  tile.input = memory.data<uint8_t>(step.input) + panel.group * step.group_channels;
  tile.taps = memory.constant<int64_t>(step.tap_offsets);
  tile.tap_count = step.taps;
  tile.quads = step.depth / 4;
  tile.weights = panel.weights;
  tile.bias = memory.constant<int32_t>(step.bias) + panel.place;
  tile.ending = ending;
  tile.factor = memory.constant<float>(step.rescale.factor) + panel.place;
  if (is_split(ending)) {
    const auto& [above, below] = memory.split->side;
    const int64_t place = panel.place;
    tile.factor = above.high + place, tile.low_factor = above.low + place, tile.nudge = above.nudge + place;
    if (below.high != nullptr) {
      tile.negative = below.high + place, tile.negative_low = below.low + place;
      tile.negative_nudge = below.minus + place;
    }
  }
  if (ending == Ending::kTwoSided) {
    tile.negative = memory.constant<float>(step.activation.negative) + panel.place;
  }
  tile.curve = &fixed.curve;
  tile.fixed = fixed.lanes;
  tile.negative_fixed = fixed.negative;
  tile.channels = panel.stored;
  const bool summed = sums_up(ending), split = is_split(ending) && !summed;
  if (summed) {
    tile.sum = sum_lanes(step);
    tile.residual = memory.data<uint8_t>(step.residual) + panel.channel;
  }
  const int64_t zero_point = summed ? step.sum.output_shift : step.rescale.zero_point;
  tile.zero_point = static_cast<int16_t>(split ? 2 * zero_point + 1 : zero_point);
  const int64_t low = summed ? step.sum.low : step.rescale.low;
  const int64_t high = summed ? step.sum.high : step.rescale.high;
  tile.low = static_cast<uint8_t>(low), tile.high = static_cast<uint8_t>(high);
  tile.plain = (split || zero_point == 0) && low == 0 && high == 255;
  return tile;
}

// Input pixels of the next tile are fetched while a tile is computed; for layers that read every pixel once.
inline void fetch_pixels(const Tile& tile, const int64_t* offsets, int64_t count) {
  const int64_t bytes = tile.quads * 4;
  for (int64_t i = 0; i < count; ++i) {
    const auto* pixel = reinterpret_cast<const char*>(tile.input + offsets[i]);
    for (int64_t k = 0; k < bytes; k += 64) _mm_prefetch(pixel + k, _MM_HINT_T0);
  }
}

constexpr int64_t kShallow[5] = {0, 64, 64, 64, 32};  // quads up to which tiles take turns, per panel width
constexpr int64_t kLeastFlow = 24;                    // pixels for which that is worth its beginning and end

// Endings whose tiles take turns with a table behind them.
inline bool flows_through_table(Ending ending) {
  return ending == Ending::kFloat || ending == Ending::kUnclamped || ending == Ending::kPlain ||
         ending == Ending::kSplit;
}

// Two factors in two parts each are loaded for every pixel, unless several of a narrow panel end together.
inline bool flows_to_codes(Ending ending, int64_t width) {
  return ending != Ending::kSums && ending < Ending::kSingleCurve &&
         (ending != Ending::kSplitSides || width == 1);
}

// A shallow layer whose codes go from registers to the output.
inline bool flows(const Conv& step, const Panel& panel, Way way, Block block) {
  const bool taken =
      step.table >= 0 ? flows_through_table(way.ending) : flows_to_codes(way.ending, panel.width);
  return way.direct() && taken && block.count >= kLeastFlow &&
         step.taps * step.depth / 4 <= kShallow[panel.width];
}

// The last up to 8 channels twice, for PairShape.
inline void repeat_last(Flow& flow, int64_t whole) {
  for (int64_t c = 0; c < 16 * (whole + 1); ++c) {
    const int64_t source = c < 16 * whole ? c : 16 * whole + c % 8;
    flow.bias[c] = flow.tile.bias[source];
    flow.factor[c] = flow.tile.factor[source];
    if (flow.tile.negative != nullptr) flow.negative[c] = flow.tile.negative[source];
    if (flow.tile.nudge == nullptr) continue;
    flow.low_factor[c] = flow.tile.low_factor[source];
    flow.nudge[c] = flow.tile.nudge[source];
  }
  flow.tile.bias = flow.bias;
  flow.tile.factor = flow.factor;
  flow.tile.low_factor = flow.low_factor;
  flow.tile.negative = flow.negative;
  flow.tile.nudge = flow.nudge;
}

inline void run_flows(const Conv& step, const Panel& panel, const Tile& tile, Block block) {
  Flow flow;
  flow.tile = tile;
  flow.taps = step.taps;
  flow.quads = step.taps * tile.quads;
  for (int64_t t = 0, q = 0; t < step.taps; ++t) {
    for (int64_t k = 0; k < tile.quads; ++k) flow.indices[q++] = tile.taps[t] + 4 * k;
  }
  const FlowSet& set = kFlowsOf[panel.width]();
  const bool halved = tile.channels >> (panel.width * kLanes - 8) == 0;
  if (set.paired == nullptr || !halved || tile.ending == Ending::kSingle || tile.ending == Ending::kDouble) {
    return set.whole(flow, block.count);
  }
  repeat_last(flow, panel.width - 1);
  set.paired(flow, block.count);
}

// Where the sums or codes of the tiles of a panel go.
inline void set_target(const Conv& step, const Memory& memory, const Panel& panel, Way way, Tile& tile) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  if (step.table >= 0 && !way.table) tile.table = memory.constant<uint8_t>(step.table);
  if (!way.direct()) {
    tile.output_offsets = kRowOffsets;
    tile.output = way.rescale ? static_cast<void*>(scratch.sums) : scratch.codes;
  } else if (step.rescale.kind == Rescale::kNone) {
    tile.output = memory.data<int32_t>(step.output) + panel.channel;
  } else {
    tile.output = memory.data<uint8_t>(step.output) + panel.channel;
  }
}

// All tiles of a panel and a block. `next_weights` are those of the panel that follows.
inline void run_panel(const Conv& step, const Memory& memory, const Panel& panel, const int8_t* next_weights,
                      Block block, bool first_panel) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory.scratch);
  FixedPanel fixed;
  const Way way = way_of(step, memory, panel, fixed);
  Tile tile = tile_of(step, memory, panel, way.ending, fixed);
  set_target(step, memory, panel, way, tile);
  if (flows(step, panel, way, block)) {
    tile.input_offsets = scratch.inputs;
    tile.output_offsets = scratch.outputs;
    tile.residual_offsets = scratch.residuals;
    return run_flows(step, panel, tile, block);
  }
  const TileSet& set = kTilesOf[panel.width]();
  const int64_t tiles = block.count == 1 ? 1 : quotient_up(block.count, set.pixels);
  const int64_t slice = tile.tap_count * tile.quads * 64;  // bytes that a tile prefetches
  const bool fetch = first_panel && step.taps == 1 && step.depth >= 192 && tiles > 1;
  const int64_t least = tiles == 1 ? block.count : block.count / tiles;
  const int64_t larger = block.count - least * tiles;  // so many have one pixel more
  for (int64_t t = 0, first = 0, count = 0; t < tiles; ++t, first += count) {
    count = least + (t < larger ? 1 : 0);
    tile.input_offsets = scratch.inputs + first;
    tile.residual_offsets = scratch.residuals + first;
    tile.prefetch = t < panel.width ? next_weights + t * slice : panel.weights;
    if (count == 1) tile.prefetch = panel.weights + kStreamAhead;
    if (way.direct()) tile.output_offsets = scratch.outputs + first;
    if (fetch) fetch_pixels(tile, tile.input_offsets + count, set.pixels);
    set.run[count](tile);
    if (!way.direct()) finish_rows(step, memory, panel, way, first, count);
  }
}

}  // namespace
}  // namespace calib8::engine
