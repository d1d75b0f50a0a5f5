// Shallow convolutions: the products of one tile between the instructions that end the one before.
//
// A tile of few products has as much to do for its codes as for its sums, on other units of the core. Two
// half-sized sets of accumulators take turns: one grows while the other is rescaled, packed and stored.
// Everything has internal linkage.
#pragma once

#include "conv_tile_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kFlowQuads = 64;  // most products (times four) of a pixel and channel

// Tiles of a block one after the other. The offsets of the tile are those of the block's first pixel.
struct Flow {
  Tile tile;
  int64_t tiles;
  int64_t quads;                // of all taps
  int64_t indices[kFlowQuads];  // bytes, per quad
  int64_t ends[4];              // unit e of the codes follows quad ends[e] − 1
};

// The tile's pixels and how many of them become codes together: 64 bytes where they can be.
template <int width>
struct FlowShape {
  static constexpr int kPixels = width == 1 ? 8 : width == 2 ? 6 : width == 3 ? 4 : 3;
  static constexpr int kTogether = width == 1 ? 4 : width == 2 ? 2 : 1;
  static constexpr int kUnits = kPixels / kTogether;
};

// One row of weights; as assembly, so that no compiler loads it again for every pixel.
template <int row>
[[gnu::always_inline]] inline __m512i weight_row(const int8_t* weights) {
  __m512i result;
  asm volatile("vmovdqa64 %c2(%1),%0" : "=v"(result) : "r"(weights), "i"(row * 64));
  return result;
}

// take_quad with few registers beside the sums.
template <int mr, int width>
[[gnu::always_inline]] inline void take_rows(__m512i (&acc)[mr][width], const uint8_t* const (&pixels)[mr],
                                             int64_t index, const int8_t* weights) {
  if constexpr (mr <= width) {
    __m512i bytes[mr];
    repeat<mr>([&](auto i) CALIB8_INLINE { bytes[i] = four_bytes<0>(pixels[i], index); });
    repeat<width>([&](auto j) CALIB8_INLINE {
      const __m512i row = weight_row<j>(weights);
      repeat<mr>([&](auto i) CALIB8_INLINE { add_products(acc[i][j], bytes[i], row); });
    });
  } else {
    __m512i rows[width];
    repeat<width>([&](auto j) CALIB8_INLINE { rows[j] = weight_row<j>(weights); });
    repeat<mr>([&](auto i) CALIB8_INLINE {
      const __m512i bytes = four_bytes<0>(pixels[i], index);
      repeat<width>([&](auto j) CALIB8_INLINE { add_products(acc[i][j], bytes, rows[j]); });
    });
  }
}

template <__m512i (*multiplied)(__m512i, const FixedLanes&)>
struct FixedSteps {
  const Tile& tile;

  explicit FixedSteps(const Tile& t) : tile(t) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int64_t, int j) const {
    return multiplied(acc, tile.fixed[j]);
  }
};

// Stores the codes of FlowShape::kTogether pixels.
template <int width>
[[gnu::always_inline]] inline void store_together(const Tile& tile, const int64_t* offsets, __m512i codes) {
  auto* output = static_cast<uint8_t*>(tile.output);
  if constexpr (width == 1) {
    const auto mask = static_cast<__mmask16>(tile.channels);
    if (mask == 0xffff && offsets[3] - offsets[0] == 48) {
      _mm512_storeu_si512(output + offsets[0], codes);
    } else {
      repeat<4>([&](auto k) CALIB8_INLINE {
        _mm_mask_storeu_epi8(output + offsets[k], mask, _mm512_extracti32x4_epi32(codes, k));
      });
    }
  } else if constexpr (width == 2) {
    const auto mask = static_cast<__mmask32>(tile.channels);
    _mm256_mask_storeu_epi8(output + offsets[0], mask, _mm512_castsi512_si256(codes));
    _mm256_mask_storeu_epi8(output + offsets[1], mask, _mm512_extracti64x4_epi64(codes, 1));
  } else {
    _mm512_mask_storeu_epi8(output + offsets[0], tile.channels, codes);
  }
}

// Codes of the pixels first … first + kTogether − 1; the unit's number is known when it is compiled.
template <class Steps, bool plain, int unit, int mr, int width>
[[gnu::always_inline]] inline void store_unit(const Tile& origin, const __m512i (&acc)[mr][width],
                                              int64_t first) {
  constexpr int kTogether = FlowShape<width>::kTogether, kRows = kTogether * width;
  const Tile* hidden = &origin;
  asm volatile("" : "+r"(hidden));  // constants come from memory each time: registers are for sums
  const Tile& tile = *hidden;
  const Steps steps(tile);
  __m512i rows[kRows];
  repeat<kRows>([&](auto k) CALIB8_INLINE {
    constexpr int pixel = unit * kTogether + k / width;
    rows[k] = steps(acc[pixel][k % width], static_cast<int>(first + pixel), k % width);
  });
  __m512i codes = packed_codes<!plain>(rows, _mm512_set1_epi16(tile.zero_point));
  if constexpr (!plain) {
    codes = _mm512_max_epu8(codes, _mm512_set1_epi8(static_cast<char>(tile.low)));
    codes = _mm512_min_epu8(codes, _mm512_set1_epi8(static_cast<char>(tile.high)));
  }
  store_together<width>(tile, tile.output_offsets + first + unit * kTogether, codes);
}

// Sums of the tile that starts at pixel `first`, codes of the one before.
template <class Steps, bool plain, bool ended, int mr, int width>
[[gnu::always_inline]] inline void take_turn(const Flow& flow, int64_t first, __m512i (&acc)[mr][width],
                                             const __m512i (&done)[mr][width]) {
  const Tile& tile = flow.tile;
  const uint8_t* pixels[mr];
  repeat<mr>([&](auto i) CALIB8_INLINE { pixels[i] = tile.input + tile.input_offsets[first + i]; });
  repeat<width>([&](auto j) CALIB8_INLINE {
    const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * j);
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = bias; });
  });
  const int8_t* weights = tile.weights;
  int64_t q = 0;
  const auto take_until = [&](int64_t end) CALIB8_INLINE {
    for (; q < end; ++q, weights += width * 64) take_rows(acc, pixels, flow.indices[q], weights);
  };
  if constexpr (ended) {
    repeat<FlowShape<width>::kUnits>([&](auto unit) CALIB8_INLINE {
      take_until(flow.ends[unit]);
      store_unit<Steps, plain, unit>(tile, done, first - mr);
    });
  }
  take_until(flow.quads);
}

template <class Steps, bool plain, int width>
__attribute__((noinline)) void run_flow(const Flow& flow) {
  constexpr int mr = FlowShape<width>::kPixels;
  __m512i even[mr][width], odd[mr][width];
  const auto finish = [&](const __m512i(&acc)[mr][width], int64_t tile) CALIB8_INLINE {
    repeat<FlowShape<width>::kUnits>([&](auto unit) CALIB8_INLINE {
      store_unit<Steps, plain, unit>(flow.tile, acc, tile * mr);
    });
  };
  take_turn<Steps, plain, false>(flow, 0, even, odd);
  int64_t t = 1;
  for (; t + 1 < flow.tiles; t += 2) {
    take_turn<Steps, plain, true>(flow, t * mr, odd, even);
    take_turn<Steps, plain, true>(flow, (t + 1) * mr, even, odd);
  }
  if (t < flow.tiles) {
    take_turn<Steps, plain, true>(flow, t * mr, odd, even);
    finish(odd, t);
  } else {
    finish(even, t - 1);
  }
}

using RunFlow = void (*)(const Flow&);

template <int width>
inline RunFlow flow_of(const Tile& tile) {
  switch (tile.ending) {
    case Ending::kPlain:
      return run_flow<FloatSteps<width>, true, width>;
    case Ending::kFloat:
    case Ending::kUnclamped:
      return run_flow<FloatSteps<width>, false, width>;
    case Ending::kSumLeft:
      return run_flow<SumSteps<width, false>, false, width>;
    case Ending::kSumRight:
      return run_flow<SumSteps<width, true>, false, width>;
    case Ending::kSingle:
      return run_flow<FixedSteps<multiplied_single>, false, width>;
    case Ending::kDouble:
      return run_flow<FixedSteps<multiplied_double>, false, width>;
    case Ending::kSums:
      break;
  }
  return nullptr;
}

inline RunFlow flow_of(const Tile& tile, int64_t width) {
  switch (width) {
    case 1:
      return flow_of<1>(tile);
    case 2:
      return flow_of<2>(tile);
    case 3:
      return flow_of<3>(tile);
    default:
      return flow_of<4>(tile);
  }
}

}  // namespace
}  // namespace calib8::engine
