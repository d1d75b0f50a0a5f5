// Shallow convolutions: the products of one tile between the instructions that end the one before.
//
// A tile of few products has as much to do for its codes as for its sums, on other units of the core. Two
// half-sized sets of accumulators take turns: one grows while the other is rescaled, packed and stored.
// Everything has internal linkage.
#pragma once

#include "conv_steps_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// One row of weights; as assembly, so that no compiler loads it again for every pixel.
template <int row>
[[gnu::always_inline]] inline __m512i weight_row(const int8_t* weights) {
  __m512i result;
  asm volatile("vmovdqa64 %c2(%1),%0" : "=v"(result) : "r"(weights), "i"(row * 64));
  return result;
}

// FixedRescale as steps of one sum.
template <int width, __m512i (*multiplied)(__m512i, const FixedLanes&)>
struct FixedSteps : PlainSteps {
  const Tile& tile;

  explicit FixedSteps(const Tile& t) : tile(t) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const { return multiplied(acc, tile.fixed[j]); }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

template <int width>
using SingleSteps = FixedSteps<width, multiplied_single>;
template <int width>
using DoubleSteps = FixedSteps<width, multiplied_double>;
template <int width>
using LeftSumSteps = SumSteps<width, false, false>;
template <int width>
using RightSumSteps = SumSteps<width, true, false>;
template <int width>
using AnyCurveSteps = CurveSteps<width, false>;
template <int width>
using WholeCurveSteps = CurveSteps<width, true>;
template <int width>
using SidedSplitSteps = SplitSidesSteps;
template <int width>
using AnySplitCurveSteps = SplitCurveSteps<false>;
template <int width>
using WholeSplitCurveSteps = SplitCurveSteps<true>;
template <int width>
using PlainSplitSteps = SplitSteps<width, false>;
template <int width>
using SignedSplitSteps = SplitSteps<width, true>;
template <int width>
using SplitLeftSumSteps = SumSteps<width, false, true>;
template <int width>
using SplitRightSumSteps = SumSteps<width, true, true>;

// How whole numbers of `Steps` get their zero point; `plain` ones of float32 have none.
template <class Steps, bool plain>
constexpr Shift kShiftOf = Steps::kTwice ? Shift::kHalved
                           : plain       ? Shift::kNone
                                         : Shift::kAdded;

// Where codes go.
struct Target {
  void* output;
  const int64_t* offsets;
  uint64_t channels;

  explicit Target(const Tile& tile)
      : output(tile.output), offsets(tile.output_offsets), channels(tile.channels) {}
};

// Constants come from memory each time: registers are for sums.
[[gnu::always_inline]] inline const Tile& hidden(const Tile& tile) {
  const Tile* result = &tile;
  asm volatile("" : "+r"(result));
  return *result;
}

// How codes are stored: `plain` ones need no clamp, `looked_up` ones go through the table of the tile.
template <bool is_plain, bool is_looked_up>
struct Last {
  static constexpr bool plain = is_plain, looked_up = is_looked_up;
};

template <class Last>
[[gnu::always_inline]] inline __m512i final_codes(__m512i codes, const Tile& tile) {
  if constexpr (!Last::plain) {
    codes = _mm512_max_epu8(codes, _mm512_set1_epi8(static_cast<char>(tile.low)));
    codes = _mm512_min_epu8(codes, _mm512_set1_epi8(static_cast<char>(tile.high)));
  }
  if constexpr (Last::looked_up) codes = looked_up(tile.table, codes);
  return codes;
}

// Products of four bytes of a pixel with those of a row of weights.
struct ByteProducts {
  CALIB8_INLINE static void add(__m512i& acc, __m512i bytes, __m512i weights) {
    add_products(acc, bytes, weights);
  }
};

// Tiles of `width` times 16 channels; kTogether pixels become codes together, 64 bytes where that can be.
template <int width, class Products = ByteProducts>
struct WholeShape {
  static constexpr int kWidth = width, kPixels = width == 1 ? 8 : width == 2 ? 6 : width == 3 ? 4 : 3;
  static constexpr int kTogether = width == 1 ? 4 : width == 2 ? 2 : 1, kUnits = kPixels / kTogether;
  // Registers that a row of tiles without loops leaves: of vectors for tables and clamps, of addresses for
  // rows.
  static constexpr bool kSpareVectors = true, kSpareAddresses = width != 2;
  __m512i acc[kPixels][width];

  CALIB8_INLINE void start(const Tile& tile) {
    repeat<width>([&](auto j) CALIB8_INLINE {
      const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * j);
      repeat<kPixels>([&](auto i) CALIB8_INLINE { acc[i][j] = bias; });
    });
  }

  // A quad of all pixels, `ahead` bytes behind the index, with few registers beside the sums; the weights of
  // quad q.
  template <int q, int ahead>
  CALIB8_INLINE void take(const uint8_t* const (&pixels)[kPixels], int64_t index, const int8_t* weights) {
    if constexpr (kPixels <= width) {
      __m512i bytes[kPixels];
      repeat<kPixels>([&](auto i) CALIB8_INLINE { bytes[i] = four_bytes<ahead>(pixels[i], index); });
      repeat<width>([&](auto j) CALIB8_INLINE {
        const __m512i row = weight_row<q * width + j>(weights);
        repeat<kPixels>([&](auto i) CALIB8_INLINE { Products::add(acc[i][j], bytes[i], row); });
      });
    } else {
      __m512i rows[width];
      repeat<width>([&](auto j) CALIB8_INLINE { rows[j] = weight_row<q * width + j>(weights); });
      repeat<kPixels>([&](auto i) CALIB8_INLINE {
        const __m512i bytes = four_bytes<ahead>(pixels[i], index);
        repeat<width>([&](auto j) CALIB8_INLINE { Products::add(acc[i][j], bytes, rows[j]); });
      });
    }
  }

  // Codes of the pixels first + unit · kTogether and so on.
  template <template <int> class Steps, class Last, int unit>
  CALIB8_INLINE void store(const Tile& origin, const Target& target, int64_t first) const {
    const Tile& tile = hidden(origin);
    const Steps<width> steps(tile);
    __m512i rows[kTogether * width];
    repeat<kTogether * width>([&](auto k) CALIB8_INLINE {
      constexpr int pixel = unit * kTogether + k / width;
      rows[k] = steps(acc[pixel][k % width], static_cast<int>(first + pixel), k % width);
    });
    const __m512i codes =
        packed_codes(rows, words_of<Steps<width>, kShiftOf<Steps<width>, Last::plain>>(tile));
    store_together(target, target.offsets + first + unit * kTogether, final_codes<Last>(codes, tile));
  }

  CALIB8_INLINE static void store_together(const Target& target, const int64_t* offsets, __m512i codes) {
    auto* output = static_cast<uint8_t*>(target.output);
    if constexpr (width == 1) {
      const auto mask = static_cast<__mmask16>(target.channels);
      // the last pixel of a block may be there several times
      const bool dense =
          offsets[1] - offsets[0] == 16 && offsets[2] - offsets[1] == 16 && offsets[3] - offsets[2] == 16;
      if (mask == 0xffff && dense) return _mm512_storeu_si512(output + offsets[0], codes);
      repeat<4>([&](auto k) CALIB8_INLINE {
        _mm_mask_storeu_epi8(output + offsets[k], mask, _mm512_extracti32x4_epi32(codes, k));
      });
    } else if constexpr (width == 2) {
      const auto mask = static_cast<__mmask32>(target.channels);
      _mm256_mask_storeu_epi8(output + offsets[0], mask, _mm512_castsi512_si256(codes));
      _mm256_mask_storeu_epi8(output + offsets[1], mask, _mm512_extracti64x4_epi64(codes, 1));
    } else {
      _mm512_mask_storeu_epi8(output + offsets[0], target.channels, codes);
    }
  }
};

// Tiles of `whole` times 16 channels and up to 8 more: those of two pixels share a register. The arrays per
// channel hold these 8 twice.
template <int whole, class Products = ByteProducts>
struct PairShape {
  static constexpr int kWidth = whole + 1, kPixels = whole == 1 ? 8 : 4, kUnits = kPixels / 2;
  static constexpr bool kSpareVectors = whole != 1, kSpareAddresses = true;
  __m512i acc[kPixels][whole], shared[kPixels / 2];

  CALIB8_INLINE void start(const Tile& tile) {
    repeat<whole>([&](auto j) CALIB8_INLINE {
      const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * j);
      repeat<kPixels>([&](auto i) CALIB8_INLINE { acc[i][j] = bias; });
    });
    const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * whole);
    repeat<kPixels / 2>([&](auto i) CALIB8_INLINE { shared[i] = bias; });
  }

  template <int q, int ahead>
  CALIB8_INLINE void take(const uint8_t* const (&pixels)[kPixels], int64_t index, const int8_t* weights) {
    const auto upper = static_cast<__mmask16>(0xff00);
    __m512i rows[whole], last;
    repeat<whole>([&](auto j) CALIB8_INLINE { rows[j] = weight_row<q * kWidth + j>(weights); });
    asm volatile("vbroadcasti64x4 %c2(%1),%0" : "=v"(last) : "r"(weights), "i"((q * kWidth + whole) * 64));
    repeat<kPixels / 2>([&](auto i) CALIB8_INLINE {
      const __m512i a = four_bytes<ahead>(pixels[2 * i], index);
      const __m512i b = four_bytes<ahead>(pixels[2 * i + 1], index);
      repeat<whole>([&](auto j) CALIB8_INLINE { Products::add(acc[2 * i][j], a, rows[j]); });
      repeat<whole>([&](auto j) CALIB8_INLINE { Products::add(acc[2 * i + 1][j], b, rows[j]); });
      __m512i both;
      asm volatile("vpblendmd %2,%1,%0%{%3%}" : "=v"(both) : "v"(a), "v"(b), "Yk"(upper));
      Products::add(shared[i], both, last);
    });
  }

  // Codes of the pixels first + 2 · unit and the next one.
  template <template <int> class Steps, class Last, int unit>
  CALIB8_INLINE void store(const Tile& origin, const Target& target, int64_t first) const {
    const Tile& tile = hidden(origin);
    const Steps<kWidth> steps(tile);
    const int a = static_cast<int>(first) + 2 * unit, b = a + 1;
    __m512i lower[whole], upper[whole];
    repeat<whole>([&](auto j) CALIB8_INLINE {
      lower[j] = steps(acc[2 * unit][j], a, j);
      upper[j] = steps(acc[2 * unit + 1][j], b, j);
    });
    const __m512i both = steps.pair(shared[unit], a, whole);
    const auto code_of = words_of<Steps<kWidth>, kShiftOf<Steps<kWidth>, Last::plain>>(tile);
    auto* output = static_cast<uint8_t*>(target.output);
    const int64_t* offsets = target.offsets + a;
    if constexpr (whole == 1) {
      const __m512i left = code_of(_mm512_packs_epi32(lower[0], both));
      const __m512i right = code_of(_mm512_packs_epi32(upper[0], upper[0]));
      const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 0, 0, 2, 6, 10, 14, 9, 13, 0, 0);
      const __m512i packed = final_codes<Last>(_mm512_packus_epi16(left, right), tile);
      const __m512i codes = _mm512_permutexvar_epi32(order, packed);
      const auto mask = static_cast<__mmask32>(target.channels);
      _mm256_mask_storeu_epi8(output + offsets[0], mask, _mm512_castsi512_si256(codes));
      _mm256_mask_storeu_epi8(output + offsets[1], mask, _mm512_extracti64x4_epi64(codes, 1));
    } else {
      const __m512i left = code_of(_mm512_packs_epi32(lower[0], lower[1]));
      const __m512i right = code_of(_mm512_packs_epi32(upper[0], upper[1]));
      __m512i rest = code_of(_mm512_packs_epi32(both, both));
      const __m512i packed = final_codes<Last>(_mm512_packus_epi16(left, right), tile);
      rest = final_codes<Last>(_mm512_packus_epi16(rest, rest), tile);
      const __m512i one = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 16, 20, 0, 0, 0, 0, 0, 0);
      const __m512i two = _mm512_setr_epi32(2, 6, 10, 14, 3, 7, 11, 15, 24, 28, 0, 0, 0, 0, 0, 0);
      const __m512i codes = _mm512_permutex2var_epi32(packed, one, rest);
      _mm512_mask_storeu_epi8(output + offsets[0], target.channels, codes);
      _mm512_mask_storeu_epi8(output + offsets[1], target.channels,
                              _mm512_permutex2var_epi32(packed, two, rest));
    }
  }
};

// Ends of tiles in bytes, by `Steps`.
template <template <int> class Steps, class Last>
struct BytesEnd {
  template <int unit, class Shape>
  CALIB8_INLINE static void store(const Tile& tile, const Target& target, const Shape& done, int64_t first) {
    done.template store<Steps, Last, unit>(tile, target, first);
  }
};

// Sums of the tile that starts at pixel `first`, codes of the one before.
template <class Shape, class End, bool ended, class Flow>
[[gnu::always_inline]] inline void take_turn(const Flow& flow, int64_t first, Shape& sums,
                                             const Shape& done) {
  constexpr int kPixels = Shape::kPixels;
  const Tile& tile = flow.tile;
  const uint8_t* pixels[kPixels];
  repeat<kPixels>([&](auto i) CALIB8_INLINE { pixels[i] = tile.input + tile.input_offsets[first + i]; });
  sums.start(tile);
  const int8_t* weights = tile.weights;
  int64_t q = 0;
  const auto take_until = [&](int64_t end) CALIB8_INLINE {
    for (; q < end; ++q, weights += Shape::kWidth * 64) {
      sums.template take<0, 0>(pixels, flow.indices[q], weights);
    }
  };
  if constexpr (ended) {
    repeat<Shape::kUnits>([&](auto unit) CALIB8_INLINE {
      take_until(flow.ends[unit]);
      End::template store<unit>(tile, Target(hidden(tile)), done, first - kPixels);
    });
  }
  take_until(flow.quads);
}

// All tiles: take(ended, first, sums, done) makes the sums of the tile at pixel `first` and, where it is not
// the first one, the codes of the sums before.
template <class Shape, class End, class Take>
[[gnu::always_inline]] inline void take_turns(const Tile& tile, int64_t tiles, const Take& take) {
  constexpr int64_t kPixels = Shape::kPixels;
  Shape even, odd;
  const auto finish = [&](const Shape& sums, int64_t last) CALIB8_INLINE {
    repeat<Shape::kUnits>([&](auto unit) CALIB8_INLINE {
      End::template store<unit>(tile, Target(tile), sums, last * kPixels);
    });
  };
  take(Index<0>{}, 0, even, odd);
  int64_t t = 1;
  for (; t + 1 < tiles; t += 2) {
    take(Index<1>{}, t * kPixels, odd, even);
    take(Index<1>{}, (t + 1) * kPixels, even, odd);
  }
  if (t < tiles) {
    take(Index<1>{}, t * kPixels, odd, even);
    finish(odd, t);
  } else {
    finish(even, t - 1);
  }
}

template <class Shape, class End, class Flow>
__attribute__((noinline)) void run_turns(const Flow& flow) {
  take_turns<Shape, End>(flow.tile, flow.tiles,
                         [&](auto ended, int64_t first, Shape& sums, const Shape& done)
                             CALIB8_INLINE { take_turn<Shape, End, ended != 0>(flow, first, sums, done); });
}

template <class Shape, template <int> class Steps, bool plain>
inline void run_flow(const Flow& flow) {
  run_turns<Shape, BytesEnd<Steps, Last<plain, false>>>(flow);
}

// How many tiles there are, and where in the products of one the codes of another are stored.
template <class Shape, class Flow>
inline void set_turns(Flow& flow, int64_t count) {
  flow.tiles = (count + Shape::kPixels - 1) / Shape::kPixels;
  for (int64_t e = 0; e < Shape::kUnits; ++e) flow.ends[e] = flow.quads * (e + 1) / (Shape::kUnits + 1);
}

}  // namespace
}  // namespace calib8::engine
