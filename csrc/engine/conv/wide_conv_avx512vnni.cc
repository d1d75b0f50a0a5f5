// Conv with 16-bit codes with AVX-512 VNNI: register tiles whose sums end from the first cache.
//
//   of int16      acc[i][j] += Σ_k s16 pixel[i][2k …] · s16 weight[2k …][16·j …]     vpdpwssd, weights
//   widened of bytes      acc[i][j] += Σ_k u8 pixel[i][4k …] · s8 weight[4k …][16·j …]       vpdpbusd
//
// A unit is four bytes of a pixel's window. For a block of pixels and a panel of channels, sections of units
// one after the other; where there is only one, each tile ends before the next one begins. Tiles of shallow
// layers take turns where their sums end in registers (wide_flow_avx512vnni.h).
#include <immintrin.h>

#include "kernels_avx512vnni.h"
#include "wide/sums_end.h"
#include "wide_flows_avx512vnni.h"

namespace calib8::engine {
namespace {

constexpr int64_t kFewPixels = 4;  // up to so many, weights are not widened in memory
constexpr int64_t kVector = 64;
constexpr int64_t kFirstCache = 1 << 15;  // bytes of it for codes

// A section of a tile. Rows of sums are as long as the panel is wide.
struct SectionTile {
  const uint8_t* input;
  const int64_t* inputs;   // bytes, per pixel
  const int64_t* indices;  // bytes, per unit
  int64_t units;
  const uint8_t* weights;  // a unit after the other
  const int32_t* bias;     // null: the sums go on
  int32_t* sums;
};

// One instruction each, so that no compiler moves sums to the stack.
template <bool words>
[[gnu::always_inline]] inline void add_units(__m512i& acc, __m512i codes, __m512i weights) {
  if constexpr (words) {
    asm volatile("vpdpwssd %2,%1,%0" : "+v"(acc) : "v"(codes), "v"(weights));
  } else {
    asm volatile("vpdpbusd %2,%1,%0" : "+v"(acc) : "v"(codes), "v"(weights));
  }
}
[[gnu::always_inline]] inline __m512i unit_of(const uint8_t* pixel, int64_t index) {
  __m512i codes;
  asm volatile("vpbroadcastd (%1,%2),%0" : "=v"(codes) : "r"(pixel), "r"(index));
  return codes;
}

template <bool words, int pixels, int width>
__attribute__((noinline)) void run_tile(const SectionTile& tile) {
  __m512i acc[pixels][width];
  const uint8_t* from[pixels];
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i) from[i] = tile.input + tile.inputs[i];
  if (tile.bias != nullptr) {
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) {
      const __m512i start = _mm512_loadu_si512(tile.bias + 16 * j);
#pragma GCC unroll 16
      for (int i = 0; i < pixels; ++i) acc[i][j] = start;
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < pixels; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < width; ++j) acc[i][j] = _mm512_load_si512(tile.sums + (i * width + j) * 16);
    }
  }
  const uint8_t* weights = tile.weights;
  const int64_t* index = tile.indices;
  for (int64_t left = tile.units; left > 0; --left, ++index, weights += width * kVector) {
    __m512i rows[width];
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) rows[j] = _mm512_load_si512(weights + j * kVector);
#pragma GCC unroll 16
    for (int i = 0; i < pixels; ++i) {
      const __m512i codes = unit_of(from[i], *index);
#pragma GCC unroll 4
      for (int j = 0; j < width; ++j) add_units<words>(acc[i][j], codes, rows[j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < pixels; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < width; ++j) _mm512_store_si512(tile.sums + (i * width + j) * 16, acc[i][j]);
  }
}

using RunSection = void (*)(const SectionTile&);

// Tiles of a panel width: of one pixel, of some and of the most that registers hold.
struct SectionTiles {
  int64_t some, most;
  RunSection one, half, whole;
};
template <bool words>
constexpr SectionTiles kTileSets[5] = {
    {},
    {5, 10, run_tile<words, 1, 1>, run_tile<words, 5, 1>, run_tile<words, 10, 1>},
    {5, 10, run_tile<words, 1, 2>, run_tile<words, 5, 2>, run_tile<words, 10, 2>},
    {4, 8, run_tile<words, 1, 3>, run_tile<words, 4, 3>, run_tile<words, 8, 3>},
    {3, 6, run_tile<words, 1, 4>, run_tile<words, 3, 4>, run_tile<words, 6, 4>}};

// int8 weights, four of each channel, as pairs of int16: all first pairs of a quad, then the others.
[[gnu::always_inline]] inline void widen(__m512i bytes, __m512i& first, __m512i& second) {
  const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8), odd = _mm512_srai_epi16(bytes, 8);
  first = _mm512_mask_blend_epi16(0xAAAAAAAA, even, _mm512_slli_epi32(odd, 16));
  second = _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(even, 16), odd);
}

// Channels of one panel and its weights.
struct Panel {
  int64_t group, width, first;  // width in vectors; channels of the group before it
  const uint8_t* weights;
};

// By units of panel width: quads up to which tiles take turns, which ones.
constexpr int64_t kShallow[5] = {0, 64, 64, 64, 32};
static_assert(2 * 64 <= kFlowUnits);
constexpr int64_t kLeastFlow = 24;  // pixels for which that is worth its beginning and end
using FlowsOf = const WideFlowSet& (*)();
constexpr FlowsOf kFlowsOf[5] = {nullptr, wide_flows16_avx512vnni, wide_flows32_avx512vnni,
                                 wide_flows48_avx512vnni, wide_flows64_avx512vnni};
constexpr FlowsOf kPairsOf[5] = {nullptr, nullptr, wide_flows24_avx512vnni, wide_flows40_avx512vnni, nullptr};

class WideTiles {
 public:
  WideTiles(const WideConv& step, const Memory& memory)
      : step_(step),
        layer_(step.layer),
        memory_(memory),
        taps_(memory.constant<int64_t>(layer_.tap_offsets)),
        widths_(memory.constant<int32_t>(layer_.panel_widths)),
        quads_(layer_.taps * layer_.depth / 4),
        words_(step.input_size == 2),
        scratch_(*reinterpret_cast<WideConvScratch*>(memory.scratch)),
        end_(layer_.rescale, layer_.activation, step.output_size, memory, SumsEnd::Order::kChannels) {}

  // A share of the pixels with all channels, or where these are few, a share of the panels with all pixels.
  void run(Part part) {
    const int64_t pixels = layer_.output.pixels(), all = layer_.groups * layer_.panels;
    const bool by_pixels = pixels >= part.count * 24;
    const Range own = by_pixels ? share(part, pixels) : Range{0, pixels};
    const Range panels = by_pixels ? Range{0, all} : share(part, all);
    const int64_t total = own.end - own.begin, most = block_pixels(), blocks = (total + most - 1) / most;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = total * block / blocks, last = total * (block + 1) / blocks;
      find_pixels(own.begin + first, last - first);
      run_panels(panels, last - first);
    }
  }

 private:
  // What a shallow layer reads for a block stays in the first cache, if other panels read it again.
  int64_t block_pixels() const {
    if (quads_ > kShallow[1]) return kWidePixels;
    const int64_t bytes = layer_.depth * step_.input_size, fit = kFirstCache / bytes;
    if (layer_.panels == 1) return kWideFlowPixels;
    return fit < kWidePixels ? kWidePixels : fit > kWideFlowPixels ? kWideFlowPixels : fit;
  }

  // Where the pixels of a block lie, bytes and codes; beyond its end the last one again.
  void find_pixels(int64_t first, int64_t count) {
    const View &in = layer_.input, &out = layer_.output;
    int64_t column = first % out.columns, row = first / out.columns % out.rows;
    int64_t image = first / out.columns / out.rows;
    const int64_t next = layer_.column_step * in.column_stride * step_.input_size;
    for (int64_t i = 0; i < count;) {
      const int64_t run = count - i < out.columns - column ? count - i : out.columns - column;
      int64_t from = in.at(image, row * layer_.row_step, column * layer_.column_step) * step_.input_size;
      int64_t to = out.at(image, row, column);
      for (const int64_t end = i + run; i < end; ++i, from += next, to += out.column_stride) {
        scratch_.inputs[i] = from, scratch_.outputs[i] = to;
      }
      column = 0;
      if (++row == out.rows) row = 0, ++image;
    }
    for (int64_t i = count; i < count + kTilePixels; ++i) {
      scratch_.inputs[i] = scratch_.inputs[count - 1], scratch_.outputs[i] = scratch_.outputs[count - 1];
    }
  }

  void run_panels(Range panels, int64_t pixels) {
    const auto* weights = memory_.constant<uint8_t>(layer_.weights);
    Panel panel{0, 0, 0, weights};
    for (int64_t index = 0; index < panels.end; ++index) {
      const int64_t place = index % layer_.panels;
      panel.weights += quads_ * panel.width * kVector;
      panel.first = place == 0 ? 0 : panel.first + panel.width * 16;
      panel.group = index / layer_.panels;
      panel.width = widths_[place];
      if (index >= panels.begin) run_panel(panel, pixels);
    }
  }

  void run_panel(const Panel& panel, int64_t pixels) {
    const int64_t place = panel.group * layer_.padded_outputs + panel.first,
                  left = layer_.outputs - panel.first;
    const int32_t* bias = memory_.constant<int32_t>(layer_.bias) + place;
    const int64_t entries = panel.width * 16;
    end_.begin(place, entries, left < entries ? left : entries,
               largest_sum(4 * quads_, step_.input_size, bias, entries));
    SectionTile tile{};
    tile.input = memory_.data<uint8_t>(layer_.input) + panel.group * layer_.group_channels * step_.input_size;
    tile.indices = scratch_.indices;
    if (words_ && pixels <= kFewPixels) return stream(panel, tile, bias, pixels);
    for (int64_t begin = 0; begin < quads_; begin += kSectionQuads) {
      const int64_t count = quads_ - begin < kSectionQuads ? quads_ - begin : kSectionQuads;
      begin_section(panel, begin, count, tile);
      tile.bias = begin == 0 ? bias : nullptr;
      if (flows(panel, pixels)) return run_flow(panel, tile, pixels);
      run_tiles(panel, tile, pixels, count == quads_);
    }
    if (quads_ > kSectionQuads) put(panel, 0, pixels);
  }

  // The units of a section and their weights.
  void begin_section(const Panel& panel, int64_t begin, int64_t count, SectionTile& tile) {
    const int64_t depth = layer_.depth / 4, each = words_ ? 2 : 1;
    int64_t tap = begin / depth, quad = begin % depth;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = (taps_[tap] + 4 * quad) * step_.input_size;
      for (int64_t unit = 0; unit < each; ++unit) scratch_.indices[i * each + unit] = first + 4 * unit;
      if (++quad == depth) quad = 0, ++tap;
    }
    tile.units = count * each;
    const int64_t row = panel.width * kVector;
    const uint8_t* weights = panel.weights + begin * row;
    tile.weights = weights;
    if (!words_) return;
    auto* target = reinterpret_cast<uint8_t*>(scratch_.section);
    tile.weights = target;
    for (int64_t i = 0; i < count; ++i, weights += row, target += 2 * row) {
      for (int64_t j = 0; j < row; j += kVector) {
        __m512i first, second;
        widen(_mm512_load_si512(weights + j), first, second);
        _mm512_store_si512(target + j, first);
        _mm512_store_si512(target + row + j, second);
      }
    }
  }

  // A shallow layer whose codes go from registers to the output.
  bool flows(const Panel& panel, int64_t pixels) const {
    const bool taken = end_.way() == SumsWay::kSmall || end_.way() == SumsWay::kSmallSingle;
    return taken && quads_ <= kShallow[panel.width] && pixels >= kLeastFlow;
  }
  void run_flow(const Panel& panel, const SectionTile& section, int64_t pixels) {
    const Rescale& rule = layer_.rescale;
    const int64_t left = layer_.outputs - panel.first, all = panel.width * 16;
    const int64_t count = left < all ? left : all, channel = panel.group * layer_.outputs + panel.first;
    const bool fixed = end_.way() == SumsWay::kSmallSingle, wide = step_.output_size == 2;
    WideFlow flow;
    WideTile& tile = flow.tile;
    tile.input = section.input, tile.input_offsets = scratch_.inputs;
    tile.weights = reinterpret_cast<const int8_t*>(section.weights);
    tile.bias = section.bias;
    tile.factor = reinterpret_cast<const float*>(end_.factors()), tile.scaled = end_.scaled();
    tile.zero_point = static_cast<int16_t>(rule.zero_point * (fixed && !wide ? 2 : 1));
    tile.low = static_cast<uint8_t>(rule.low), tile.high = static_cast<uint8_t>(rule.high);
    tile.wide_zero_point = static_cast<int32_t>(rule.zero_point);
    const auto twice = [](int64_t word) { return static_cast<int32_t>((word & 0xffff) * 0x10001); };
    tile.wide_low = twice(rule.low), tile.wide_high = twice(rule.high);
    tile.output = memory_.data<uint8_t>(layer_.output) + channel * step_.output_size;
    tile.output_offsets = scratch_.outputs;
    tile.channels = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    flow.quads = section.units, flow.indices = section.indices;
    const bool halved = count <= all - 8 && kPairsOf[panel.width] != nullptr;
    const WideFlowSet& set = halved ? kPairsOf[panel.width]() : kFlowsOf[panel.width]();
    const auto& runs = !words_ ? set.bytes_to_words : wide ? set.words_to_words : set.words_to_bytes;
    runs[fixed ? 1 : 0](flow, pixels);
  }

  void run_tiles(const Panel& panel, SectionTile tile, int64_t pixels, bool whole) {
    const SectionTiles& set = words_ ? kTileSets<true>[panel.width] : kTileSets<false>[panel.width];
    for (int64_t first = 0; first < pixels;) {
      const int64_t left = pixels - first;
      const int64_t count = left > set.some ? set.most : left > 1 ? set.some : 1;
      tile.inputs = scratch_.inputs + first;
      tile.sums = scratch_.sums + (whole ? 0 : first * panel.width * 16);
      (count == set.most ? set.whole : count == 1 ? set.one : set.half)(tile);
      if (whole) put(panel, first, left < count ? left : count);
      first += count;
    }
  }

  // Codes of sums; those of a whole tile lie at the beginning.
  void put(const Panel& panel, int64_t first, int64_t count) {
    const int64_t channel = panel.group * layer_.outputs + panel.first;
    uint8_t* output = memory_.data<uint8_t>(layer_.output) + channel * step_.output_size;
    end_.rows({scratch_.sums, panel.width * 16, count, output, scratch_.outputs + first});
  }

  // All channels of a panel for a few pixels, weights widened in registers.
  void stream(const Panel& panel, SectionTile tile, const int32_t* bias, int64_t pixels) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const uint8_t* input = tile.input + scratch_.inputs[pixel];
      switch (panel.width) {
        case 1:
          stream_pixel<1>(panel, input, bias);
          break;
        case 2:
          stream_pixel<2>(panel, input, bias);
          break;
        case 3:
          stream_pixel<3>(panel, input, bias);
          break;
        default:
          stream_pixel<4>(panel, input, bias);
      }
      put(panel, pixel, 1);
    }
  }

  // Bytes in even places times codes in even places, and the odd ones.
  template <int width>
  void stream_pixel(const Panel& panel, const uint8_t* input, const int32_t* bias) {
    __m512i even[width], odd[width];
    for (int j = 0; j < width; ++j)
      even[j] = _mm512_loadu_si512(bias + 16 * j), odd[j] = _mm512_setzero_si512();
    const uint8_t* weights = panel.weights;
    for (int64_t tap = 0; tap < layer_.taps; ++tap) {
      const uint8_t* codes = input + taps_[tap] * 2;
      for (int64_t k = 0; k < layer_.depth; k += 4, codes += 8, weights += width * kVector) {
        int64_t four;
        std::memcpy(&four, codes, sizeof four);
        const __m128i each = _mm_shuffle_epi8(_mm_cvtsi64_si128(four),
                                              _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 0, 1, 4, 5, 2, 3, 6, 7));
        const __m512i first = _mm512_broadcastd_epi32(each);
        const __m512i second = _mm512_broadcastd_epi32(_mm_srli_si128(each, 4));
#pragma GCC unroll 4
        for (int j = 0; j < width; ++j) {
          const __m512i bytes = _mm512_load_si512(weights + j * kVector);
          even[j] = _mm512_dpwssd_epi32(even[j], first, _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8));
          odd[j] = _mm512_dpwssd_epi32(odd[j], second, _mm512_srai_epi16(bytes, 8));
        }
      }
    }
    for (int j = 0; j < width; ++j) {
      _mm512_store_si512(scratch_.sums + 16 * j, _mm512_add_epi32(even[j], odd[j]));
    }
  }

  const WideConv& step_;
  const Conv& layer_;
  const Memory& memory_;
  const int64_t* taps_;
  const int32_t* widths_;
  int64_t quads_;  // of a window
  bool words_;
  WideConvScratch& scratch_;
  SumsEnd end_;
};

}  // namespace

void wide_conv_avx512vnni(const WideConv& step, const Memory& memory, Part part) {
  WideTiles(step, memory).run(part);
}

}  // namespace calib8::engine
