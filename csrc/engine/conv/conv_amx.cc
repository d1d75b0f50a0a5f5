// Convolution and fully connected layers with AMX: products of tiles of 16 pixels × 64 codes by 64 weights ×
// 16 channels.
//
//   for a block of pixels:   the codes of their windows side by side, in sections; or where they lie
//                            (16 pixels the same distance apart, whole sections)
//     for a panel of output channels:   for two tiles of pixels:
//       sums[32][64] = Σ codes · weights   tdpbusd
//       codes of the sums                  register tiles of AVX-512 VNNI, whose products are these sums
//
// Weights are packed as a tile takes them: quads of depth are its rows. Sections are of equal depth, at most
// 64; where that cannot be, the last one repeats weights of the one before, times 0.
#include "conv_pixels_avx512vnni.h"
#include "kernels_avx512vnni.h"
#include "tiles_amx.h"

namespace calib8::engine {
namespace {

constexpr int64_t kMostQuads = kSectionBytes / 4;  // of a section
constexpr int64_t kTileBytes = kSectionBytes * kTilePixels;

// Quads of a section: as many as fit, if all sections can have so many.
int64_t quads_of_section(int64_t quads, int64_t sections) {
  return quads % sections == 0 ? quads / sections : kMostQuads;
}

// The codes of a block, section by section.
struct Cells {
  AmxScratch& scratch;
  uint8_t* codes;  // [tiles][sections][16 pixels][64]
  int64_t quads, sections, section_quads, runs = 0;

  Cells(const Conv& step, const Memory& memory)
      : scratch(*reinterpret_cast<AmxScratch*>(memory.scratch)),
        codes(memory.scratch + sizeof(AmxScratch)),
        quads(step.taps * step.depth / 4),
        sections(code_sections(step)),
        section_quads(quads_of_section(quads, sections)) {}

  uint8_t* tile(int64_t number) const { return codes + number * sections * kTileBytes; }
  bool equal() const { return quads == sections * section_quads; }
  // The first quad of a section's weights.
  int64_t first_quad(int64_t section) const {
    return section + 1 < sections || equal() ? section * section_quads : quads - section_quads;
  }
  // Every section is one run: it may be read where it lies.
  bool whole() const { return equal() && runs == sections; }
};

// Where `bytes` codes from byte `place` of the windows on go, at most to the end of their section: into the
// last section from the right.
CodeRun run_of(const Cells& cells, int64_t source, int64_t place, int64_t bytes) {
  const int64_t width = cells.section_quads * 4, section = place / width;
  const int64_t unused = section * width - cells.first_quad(section) * 4;
  return {source, section * kTileBytes + place % width + unused,
          bytes == 64 ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1};
}

// Windows as runs of bytes that lie side by side. False where there are too many.
bool find_runs(const Conv& step, const Memory& memory, Cells& cells) {
  const auto* taps = memory.constant<int64_t>(step.tap_offsets);
  const int64_t width = cells.section_quads * 4;
  int64_t place = 0;
  for (int64_t t = 0, end = 0; t < step.taps; t = end) {
    for (end = t + 1; end < step.taps && taps[end] == taps[end - 1] + step.depth;) ++end;
    int64_t source = taps[t];
    for (int64_t left = (end - t) * step.depth, bytes = 0; left > 0; left -= bytes) {
      if (cells.runs == kMostRuns) return false;
      bytes = least_of(left, width - place % width);
      cells.scratch.runs[cells.runs++] = run_of(cells, source, place, bytes);
      source += bytes, place += bytes;
    }
  }
  return true;
}

// What no run writes in the last section is 0.
void clear_rest(const Cells& cells, int64_t tiles) {
  if (cells.equal()) return;
  for (int64_t t = 0; t < tiles; ++t) {
    uint8_t* section = cells.tile(t) + (cells.sections - 1) * kTileBytes;
    for (int64_t i = 0; i < kTileBytes; i += 64) _mm512_store_si512(section + i, _mm512_setzero_si512());
  }
}

// Bytes from each pixel of a tile to the next one; 0 where they are not all the same.
int64_t distance_of(const int64_t* pixels) {
  const int64_t distance = pixels[1] - pixels[0];
  for (int64_t i = 2; i < kTilePixels; ++i) {
    if (pixels[i] - pixels[i - 1] != distance) return 0;
  }
  return distance;
}

// The codes of the windows of a block: where they lie, or side by side.
void collect(const Cells& cells, const uint8_t* input, int64_t tiles) {
  for (int64_t t = 0; t < tiles; ++t) {
    uint8_t* tile = cells.tile(t);
    const int64_t* pixels = cells.scratch.panel.inputs + t * kTilePixels;
    PlacedTile& placed = cells.scratch.tiles[t];
    const int64_t distance = cells.whole() ? distance_of(pixels) : 0;
    placed = {input + pixels[0], distance};
    if (distance > 0) continue;
    placed = {tile, 0};
    for (int64_t r = 0; r < cells.runs; ++r) {
      const CodeRun run = cells.scratch.runs[r];
      const uint8_t* source = input + run.source;
      for (int64_t i = 0; i < kTilePixels; ++i) {
        const __m512i codes = _mm512_maskz_loadu_epi8(run.lanes, source + pixels[i]);
        _mm512_mask_storeu_epi8(tile + run.target + i * kSectionBytes, run.lanes, codes);
      }
    }
  }
}

// Sums of one or two tiles of pixels and one or two strips of 16 channels.
template <bool two_tiles, bool two_strips>
void multiply(const Cells& cells, const PlacedTile* tiles, const int8_t* weights, int64_t row,
              int32_t* sums) {
  const PlacedTile first = tiles[0], other = tiles[two_tiles ? 1 : 0];
  const int64_t first_row = first.distance > 0 ? first.distance : kSectionBytes;
  const int64_t other_row = other.distance > 0 ? other.distance : kSectionBytes;
  zero_tile<0>();
  if (two_strips) zero_tile<1>();
  if (two_tiles) zero_tile<2>();
  if (two_tiles && two_strips) zero_tile<3>();
  for (int64_t s = 0; s < cells.sections; ++s) {
    const int8_t* strip = weights + cells.first_quad(s) * row;
    load_tile<6>(strip, row);
    load_tile<4>(first.codes + (first.distance > 0 ? cells.scratch.runs[s].source : s * kTileBytes),
                 first_row);
    multiply_tiles<0, 4, 6>();
    if (two_strips) load_tile<7>(strip + 64, row);
    if (two_strips) multiply_tiles<1, 4, 7>();
    if (two_tiles)
      load_tile<5>(other.codes + (other.distance > 0 ? cells.scratch.runs[s].source : s * kTileBytes),
                   other_row);
    if (two_tiles) multiply_tiles<2, 5, 6>();
    if (two_tiles && two_strips) multiply_tiles<3, 5, 7>();
  }
  constexpr int64_t kBytes = kRowBytes * 4;
  store_tile<0>(sums, kBytes);
  if (two_strips) store_tile<1>(sums + 16, kBytes);
  if (two_tiles) store_tile<2>(sums + kTilePixels * kRowBytes, kBytes);
  if (two_tiles && two_strips) store_tile<3>(sums + kTilePixels * kRowBytes + 16, kBytes);
}

// Sums of all channels of a panel.
void multiply_panel(const Cells& cells, const PlacedTile* codes, bool two_tiles, const Panel& panel) {
  const int64_t row = panel.width * 64;
  for (int64_t strip = 0; strip < panel.width; strip += 2) {
    const int8_t* weights = panel.weights + strip * 64;
    int32_t* sums = cells.scratch.sums + strip * kLanes;
    if (two_tiles) {
      (strip + 1 < panel.width ? multiply<true, true> : multiply<true, false>)(cells, codes, weights, row,
                                                                               sums);
    } else {
      (strip + 1 < panel.width ? multiply<false, true> : multiply<false, false>)(cells, codes, weights, row,
                                                                                 sums);
    }
  }
}

// All tiles of a panel and a block.
void run_tiles(const Conv& step, const Memory& memory, const Cells& cells, const Panel& panel, Block block) {
  PanelScratch& scratch = cells.scratch.panel;
  FixedPanel fixed;
  const Way way = way_of(step, memory, panel, fixed);
  Tile tile = tile_of(step, memory, panel, way.ending, fixed);
  set_target(step, memory, panel, way, tile);
  const TileSet& set = kTilesOf[panel.width]();
  constexpr int64_t kPixels = kTilesAtOnce * kTilePixels;
  for (int64_t begin = 0; begin < block.count; begin += kPixels) {
    const int64_t end = least_of(begin + kPixels, block.count);
    multiply_panel(cells, cells.scratch.tiles + begin / kTilePixels, end - begin > kTilePixels, panel);
    for (int64_t first = begin, count = 0; first < end; first += count) {
      count = least_of(set.pixels, end - first);
      tile.sums = cells.scratch.sums + (first - begin) * kRowBytes;
      tile.residual_offsets = scratch.residuals + first;
      if (way.direct()) tile.output_offsets = scratch.outputs + first;
      set.run[count](tile);
      if (!way.direct()) finish_rows(step, memory, panel, way, first, count);
    }
  }
}

// Blocks of pixels, panels of channels.
void run_blocks(const Conv& step, const Memory& memory, const Cells& cells, Range pixels, Range units) {
  const int64_t total = pixels.end - pixels.begin, most = tiles_of_block(step) * kTilePixels;
  const uint8_t* input = memory.data<uint8_t>(step.input);
  clear_rest(cells, quotient_up(least_of(total, most), kTilePixels));
  for (int64_t first = 0; first < total; first += most) {
    const Block block{pixels.begin + first, least_of(most, total - first)};
    place_pixels(step, block, cells.scratch.panel);
    Panels panels(step, memory, units.begin);
    for (int64_t unit = units.begin, group = -1; unit < units.end; ++unit) {
      const Panel panel = panels.panel();
      if (unit + 1 < units.end) panels.next();
      if (panel.group != group) {
        group = panel.group;
        collect(cells, input + group * step.group_channels, quotient_up(block.count, kTilePixels));
      }
      run_tiles(step, memory, cells, panel, block);
    }
  }
}

// Whether tiles take fewer cycles than vectors, by half cycles for a pixel. 16 channels take two for each
// section, and what is stored and loaded again three; a run that is copied takes seven; vectors, one for each
// quad. Shallow layers end between the products of vectors, and not of tiles. Tiles are filled up to 16
// pixels, and a call takes about 500 cycles.
bool pays(const Conv& step, const Cells& cells, int64_t pixels) {
  constexpr int64_t kCall = 1000;
  const int64_t strips = step.padded_outputs / kLanes, width = least_of(strips, 4);
  const bool shallow = cells.quads <= kShallow[width];
  const int64_t copied = cells.whole() && step.taps == 1 ? 0 : cells.runs;
  const int64_t tile = strips * (2 * cells.sections + (shallow ? 5 : 3)) + (shallow ? 10 : 4) + 7 * copied;
  return tile * quotient_up(pixels, kTilePixels) * kTilePixels + kCall < strips * cells.quads * pixels;
}

// Threads share the panels, with all pixels, where that takes fewer tiles.
bool panels_are_shared(const Conv& step, int parts) {
  if (parts == 1) return false;
  const int64_t units = step.groups * step.panels, pixels = step.output.pixels();
  const int64_t by_pixels = quotient_up(quotient_up(pixels, parts), kTilePixels) * units;
  return quotient_up(pixels, kTilePixels) * quotient_up(units, parts) < by_pixels;
}

}  // namespace

void conv_amx(const Conv& step, const Memory& memory, Part part) {
  const Part whole{0, 1};
  const bool by_panels = panels_are_shared(step, part.count);
  const int64_t all = step.output.pixels();
  Cells cells(step, memory);
  // The same decision in all parts: vectors are shared in another way than tiles.
  const int64_t fewest = by_panels ? all : all / part.count;
  if (all < kTilePixels || !find_runs(step, memory, cells) || !pays(step, cells, most_of(fewest, 1))) {
    return conv_avx512vnni(step, memory, part);
  }
  const Range pixels = share(by_panels ? whole : part, all);
  const Range units = share(by_panels ? part : whole, step.groups * step.panels);
  if (pixels.begin == pixels.end || units.begin == units.end) return;
  begin_tiles(TileConfig(cells.section_quads));
  run_blocks(step, memory, cells, pixels, units);
  end_tiles();
}

}  // namespace calib8::engine
