// One register tile of a convolution: a few pixels times a panel of 16 … 64 output channels.
//
//   acc[i][j] += Σ_k u8 pixel[i][k] · s8 weight[k][16·j …]      vpdpbusd, four products a lane
//
// The instructions of the inner loop are written as assembly, one each, so that no compiler moves
// accumulators to the stack. Everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "split_factors.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What a tile does with its sums. Float factors are below 1 and fixed shifts below 0: nothing leaves int32.
enum class Ending : int64_t {
  kSums,         // stores them, int32
  kFloat,        // rint(float32(acc) · factor), the zero point, the clamp
  kUnclamped,    // kFloat where the clamp is that of uint8
  kPlain,        // kUnclamped with zero point 0
  kSumLeft,      // kFloat, then FloatSum with a residual on its left side
  kSumRight,     // … on its right side
  kSplit,        // FixedRescale with SplitFactors
  kSplitSigned,  // where the nudge has a sign
  kSplitSumLeft,
  kSplitSumRight,
  kSingle,  // FixedRescale
  kDouble,
};

// Constants of FixedRescale for 16 channels: even and odd channels apart, as vpmuldq takes them.
struct alignas(64) FixedLanes {
  int32_t multiplier[16], odd_multiplier[16];  // the latter in the even places
  int64_t round[8], odd_round[8];              // kSingle: half of what is shifted out
  int64_t right[8], odd_right[8];              // kSingle: odd ones stay in the upper half, 32 less
  int32_t half_right[16];                      // kDouble: right shift behind the product, minus 1
};

// Constants of a FloatSum behind a FloatRescale. The residual and the code are raw ones: stored − shift.
struct SumLanes {
  float lhs, rhs, fixed;
  float least, most;       // clamp of the code, minus its zero point
  float round, unrounded;  // v + round − unrounded is rint(v) + zero point − shift
  int32_t residual_shift;
};

struct Tile {
  const uint8_t* input;
  const int64_t* input_offsets;  // bytes, per pixel
  const int64_t* taps;           // bytes
  int64_t tap_count, quads;      // a tap is `quads` times four bytes deep
  const int8_t* weights;         // of the panel
  const int8_t* prefetch;  // is fetched into the second level: a line a quad, for a single pixel `width`
  const int32_t* bias;
  Ending ending;
  const float* factor;      // kFloat and its kin; kSplit and its kin: the high part
  const float* low_factor;  // kSplit and its kin, as nudge
  const float* nudge;
  const FixedLanes* fixed;  // kSingle, kDouble: one per 16 channels
  SumLanes sum;             // with a residual
  const uint8_t* residual;
  const int64_t* residual_offsets;
  bool plain;          // the clamp is that of uint8, and, but for kSplit, the zero point 0
  int16_t zero_point;  // added to what is rounded last; kSplit, kSplitSigned: twice that and 1
  uint8_t low, high;
  void* output;
  const int64_t* output_offsets;  // elements, per pixel
  uint64_t channels;              // bit c: channel c is stored
};

template <int n>
struct Index {
  static constexpr int value = n;
  constexpr operator int() const { return n; }  // NOLINT: an index
};

// body(0) … body(n − 1) with indices that are constants.
template <int n, class Body>
[[gnu::always_inline]] inline void repeat(Body&& body) {
  if constexpr (n > 0) {
    repeat<n - 1>(body);
    body(Index<n - 1>{});
  }
}

#define CALIB8_INLINE __attribute__((always_inline))

// Four bytes at pixel + index + ahead in every lane.
template <int ahead>
[[gnu::always_inline]] inline __m512i four_bytes(const uint8_t* pixel, int64_t index) {
  __m512i bytes;
  asm volatile("vpbroadcastd %c3(%1,%2),%0" : "=v"(bytes) : "r"(pixel), "r"(index), "i"(ahead));
  return bytes;
}

[[gnu::always_inline]] inline void add_products(__m512i& acc, __m512i bytes, __m512i weights) {
  asm volatile("vpdpbusd %2,%1,%0" : "+v"(acc) : "v"(bytes), "v"(weights));
}

// Four bytes of every pixel times four rows of weights; `ahead` such steps beyond the pointers.
template <int ahead, int mr, int width>
[[gnu::always_inline]] inline void take_quad(__m512i (&acc)[mr][width], const uint8_t* const (&pixels)[mr],
                                             int64_t index, const int8_t* weights) {
  __m512i rows[width];
  repeat<width>([&](auto j)
                    CALIB8_INLINE { rows[j] = _mm512_load_si512(weights + (ahead * width + j) * 64); });
  repeat<mr>([&](auto i) CALIB8_INLINE {
    const __m512i bytes = four_bytes<ahead * 4>(pixels[i], index);
    repeat<width>([&](auto j) CALIB8_INLINE { add_products(acc[i][j], bytes, rows[j]); });
  });
}

template <int mr, int width>
[[gnu::always_inline]] inline void accumulate(const Tile& tile, __m512i (&acc)[mr][width]) {
  constexpr int kUnroll = 4;
  const uint8_t* pixels[mr];
  repeat<mr>([&](auto i) CALIB8_INLINE { pixels[i] = tile.input + tile.input_offsets[i]; });
  repeat<width>([&](auto j) CALIB8_INLINE {
    const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * j);
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = bias; });
  });
  constexpr int kLines = mr == 1 ? width : 1;
  const int8_t* weights = tile.weights;
  const int8_t* prefetch = tile.prefetch;
  for (int64_t t = 0; t < tile.tap_count; ++t) {
    int64_t index = tile.taps[t];
    int64_t quads = tile.quads;
    asm volatile("" : "+r"(quads));  // keeps the compiler from a second copy of the loop for shallow taps
    for (; quads >= kUnroll; quads -= kUnroll) {
      repeat<kUnroll>([&](auto ahead) CALIB8_INLINE {
        repeat<kLines>([&](auto line) CALIB8_INLINE {
          _mm_prefetch(reinterpret_cast<const char*>(prefetch + (ahead * kLines + line) * 64), _MM_HINT_T1);
        });
        take_quad<ahead>(acc, pixels, index, weights);
      });
      index += kUnroll * 4;
      weights += kUnroll * width * 64;
      prefetch += kUnroll * kLines * 64;
    }
    for (; quads > 0; --quads) {
      take_quad<0>(acc, pixels, index, weights);
      index += 4;
      weights += width * 64;
    }
  }
}

// (acc·m + half) >> right, in int32: the product is shifted by 32 … 62.
[[gnu::always_inline]] inline __m512i multiplied_single(__m512i acc, const FixedLanes& lanes) {
  const __m512i even = _mm512_mul_epi32(acc, _mm512_load_si512(lanes.multiplier));
  const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(acc, 32), _mm512_load_si512(lanes.odd_multiplier));
  const __m512i low = _mm512_srav_epi64(_mm512_add_epi64(even, _mm512_load_si512(lanes.round)),
                                        _mm512_load_si512(lanes.right));
  const __m512i high = _mm512_srav_epi64(_mm512_add_epi64(odd, _mm512_load_si512(lanes.odd_round)),
                                         _mm512_load_si512(lanes.odd_right));
  return _mm512_mask_blend_epi32(0xAAAA, low, high);
}

// SRDHM, then a shift to the right by 1 … 31 with ties away from zero. −2^31 never comes out of the product.
[[gnu::always_inline]] inline __m512i multiplied_double(__m512i acc, const FixedLanes& lanes) {
  const __m512i half = _mm512_set1_epi64(int64_t{1} << 30);
  const __m512i even = _mm512_mul_epi32(acc, _mm512_load_si512(lanes.multiplier));
  const __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(acc, 32), _mm512_load_si512(lanes.odd_multiplier));
  const __m512i low = _mm512_srli_epi64(_mm512_add_epi64(even, half), 31);
  const __m512i high = _mm512_slli_epi64(_mm512_add_epi64(odd, half), 1);
  const __m512i product = _mm512_mask_blend_epi32(0xAAAA, low, high);
  const __m512i away = _mm512_add_epi32(product, _mm512_srai_epi32(product, 31));
  const __m512i twice = _mm512_srav_epi32(away, _mm512_load_si512(lanes.half_right));
  return _mm512_srai_epi32(_mm512_sub_epi32(twice, _mm512_set1_epi32(-1)), 1);
}

// Ways from sums to whole numbers, 16 channels at a time: channels 16·j … of pixel i.
template <int width>
struct FloatSteps {
  static constexpr bool kTwice = false;
  __m512 factor[width];

  explicit FloatSteps(const Tile& tile) {
    repeat<width>([&](auto j) CALIB8_INLINE { factor[j] = _mm512_loadu_ps(tile.factor + 16 * j); });
  }
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), factor[j]));
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

// Twice the whole numbers, and 1 more for some.
template <int width, bool with_sign>
struct SplitSteps {
  static constexpr bool kTwice = true;
  __m512 high[width], low[width], nudge[width];

  explicit SplitSteps(const Tile& tile) {
    repeat<width>([&](auto j) CALIB8_INLINE {
      high[j] = _mm512_loadu_ps(tile.factor + 16 * j);
      low[j] = _mm512_loadu_ps(tile.low_factor + 16 * j);
      nudge[j] = _mm512_loadu_ps(tile.nudge + 16 * j);
    });
  }
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    return multiplied_split<with_sign>(acc, high[j], low[j], nudge[j]);
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

template <int width, bool right, bool split>
struct SumSteps {
  static constexpr bool kTwice = false;
  const Tile& tile;
  __m512 lhs, rhs, fixed, least, most, round, unrounded;
  __m512i shift;

  explicit SumSteps(const Tile& t)
      : tile(t),
        lhs(_mm512_set1_ps(t.sum.lhs)),
        rhs(_mm512_set1_ps(t.sum.rhs)),
        fixed(_mm512_set1_ps(t.sum.fixed)),
        least(_mm512_set1_ps(t.sum.least)),
        most(_mm512_set1_ps(t.sum.most)),
        round(_mm512_set1_ps(t.sum.round)),
        unrounded(_mm512_set1_ps(t.sum.unrounded)),
        shift(_mm512_set1_epi32(t.sum.residual_shift)) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int i, int j) const {
    const auto* place = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i] + 16 * j);
    return sum(acc, _mm_loadu_si128(place), j);
  }
  // 8 channels of pixel i and 8 of the next one.
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const {
    const auto* one = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i] + 16 * j);
    const auto* two = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i + 1] + 16 * j);
    return sum(acc, _mm_unpacklo_epi64(_mm_loadl_epi64(one), _mm_loadl_epi64(two)), j);
  }
  // The code of the layer, raw.
  CALIB8_INLINE __m512 code_of(__m512i acc, int j) const {
    const __m512 factor = _mm512_loadu_ps(tile.factor + 16 * j);
    if constexpr (split) {
      const __m512 low = _mm512_loadu_ps(tile.low_factor + 16 * j);
      const __m512 nudge = _mm512_loadu_ps(tile.nudge + 16 * j), half = _mm512_set1_ps(0.5F);
      const __m512 value =
          _mm512_fmadd_round_ps(split_product<true>(acc, factor, low, nudge), half, half, kDown);
      const __m512 inside = _mm512_min_ps(_mm512_max_ps(value, least), most);
      return _mm512_sub_ps(_mm512_add_round_ps(inside, round, kDown), unrounded);
    }
    const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), factor);
    const __m512 inside = _mm512_min_ps(_mm512_max_ps(value, least), most);
    return _mm512_sub_ps(_mm512_add_ps(inside, round), unrounded);
  }
  CALIB8_INLINE __m512i sum(__m512i acc, __m128i residual, int j) const {
    const __m512 code = code_of(acc, j);
    const __m512i wide = _mm512_cvtepu8_epi32(residual);
    const __m512 other = _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, shift));
    const __m512 left = right ? code : other, inner = right ? other : code;
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(left, lhs, _mm512_fmadd_ps(inner, rhs, fixed)));
  }
};

// What `multiply` made of the sums before.
struct WholeSteps {
  explicit WholeSteps(const Tile&) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int) const { return acc; }
};

// What is added to whole numbers in 16 bits.
enum class Shift { kNone, kAdded, kHalved };

template <Shift kind>
[[gnu::always_inline]] inline __m512i shifted_words(__m512i words, __m512i shift) {
  if (kind != Shift::kNone) words = _mm512_adds_epi16(words, shift);
  return kind == Shift::kHalved ? _mm512_srai_epi16(words, 1) : words;
}

// 16·width whole numbers as bytes side by side, after `shift` is added.
template <Shift kind, int width>
[[gnu::always_inline]] inline __m512i packed_codes(const __m512i (&steps)[width], __m512i shift) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i left = shifted_words<kind>(_mm512_packs_epi32(steps[0], steps[width > 1 ? 1 : 0]), shift);
  __m512i right = left;
  if constexpr (width > 2) {
    right = shifted_words<kind>(_mm512_packs_epi32(steps[2], steps[width > 3 ? 3 : 2]), shift);
  }
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(left, right));
}

template <int width>
[[gnu::always_inline]] inline void store_codes(uint8_t* target, __m512i codes, uint64_t channels) {
  constexpr uint64_t kAll = width == 4 ? ~uint64_t{0} : (uint64_t{1} << (16 * width % 64)) - 1;
  if (width == 3 || channels != kAll) {
    _mm512_mask_storeu_epi8(target, channels, codes);
  } else if constexpr (width == 4) {
    _mm512_storeu_si512(target, codes);
  } else if constexpr (width == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_castsi512_si256(codes));
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm512_castsi512_si128(codes));
  }
}

// Codes of every pixel in memory: pixel by pixel, so that the first ones leave while others are computed.
template <class Steps, Shift kind, bool clamped, int mr, int width>
[[gnu::always_inline]] inline void store_rows(const Tile& tile, const __m512i (&acc)[mr][width]) {
  const Steps steps(tile);
  const __m512i shift = _mm512_set1_epi16(tile.zero_point);
  const __m512i low = _mm512_set1_epi8(static_cast<char>(tile.low));
  const __m512i high = _mm512_set1_epi8(static_cast<char>(tile.high));
  auto* output = static_cast<uint8_t*>(tile.output);
  repeat<mr>([&](auto i) CALIB8_INLINE {
    __m512i row[width];
    repeat<width>([&](auto j) CALIB8_INLINE { row[j] = steps(acc[i][j], i, j); });
    __m512i codes = packed_codes<kind>(row, shift);
    if (clamped) codes = _mm512_min_epu8(_mm512_max_epu8(codes, low), high);
    store_codes<width>(output + tile.output_offsets[i], codes, tile.channels);
  });
}

template <int mr, int width>
[[gnu::always_inline]] inline void store_sums(const Tile& tile, const __m512i (&acc)[mr][width]) {
  auto* output = static_cast<int32_t*>(tile.output);
  repeat<mr>([&](auto i) CALIB8_INLINE {
    int32_t* target = output + tile.output_offsets[i];
    repeat<width>([&](auto j) CALIB8_INLINE {
      _mm512_mask_storeu_epi32(target + 16 * j, static_cast<__mmask16>(tile.channels >> (16 * j)), acc[i][j]);
    });
  });
}

// FixedRescale in place: channels outside, pixels inside, so that the constants stay in registers.
template <__m512i (*multiplied)(__m512i, const FixedLanes&), int mr, int width>
[[gnu::always_inline]] inline void multiply(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = multiplied(acc[i][j], tile.fixed[j]); });
  });
}

template <bool with_sign, int mr, int width>
[[gnu::always_inline]] inline void multiply_split(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    const __m512 high = _mm512_loadu_ps(tile.factor + 16 * j),
                 low = _mm512_loadu_ps(tile.low_factor + 16 * j);
    const __m512 nudge = _mm512_loadu_ps(tile.nudge + 16 * j);
    repeat<mr>([&](auto i)
                   CALIB8_INLINE { acc[i][j] = multiplied_split<with_sign>(acc[i][j], high, low, nudge); });
  });
}

template <int mr, int width>
__attribute__((noinline)) void run_tile(const Tile& tile) {
  __m512i acc[mr][width];
  accumulate<mr, width>(tile, acc);
  switch (tile.ending) {
    case Ending::kSums:
      return store_sums<mr, width>(tile, acc);
    case Ending::kFloat:
      return store_rows<FloatSteps<width>, Shift::kAdded, true>(tile, acc);
    case Ending::kUnclamped:
      return store_rows<FloatSteps<width>, Shift::kAdded, false>(tile, acc);
    case Ending::kPlain:
      return store_rows<FloatSteps<width>, Shift::kNone, false>(tile, acc);
    case Ending::kSumLeft:
      return store_rows<SumSteps<width, false, false>, Shift::kAdded, true>(tile, acc);
    case Ending::kSumRight:
      return store_rows<SumSteps<width, true, false>, Shift::kAdded, true>(tile, acc);
    case Ending::kSplit:
      multiply_split<false>(tile, acc);
      return store_rows<WholeSteps, Shift::kHalved, true>(tile, acc);
    case Ending::kSplitSigned:
      multiply_split<true>(tile, acc);
      return store_rows<WholeSteps, Shift::kHalved, true>(tile, acc);
    case Ending::kSplitSumLeft:
      return store_rows<SumSteps<width, false, true>, Shift::kAdded, true>(tile, acc);
    case Ending::kSplitSumRight:
      return store_rows<SumSteps<width, true, true>, Shift::kAdded, true>(tile, acc);
    case Ending::kSingle:
      multiply<multiplied_single>(tile, acc);
      break;
    case Ending::kDouble:
      multiply<multiplied_double>(tile, acc);
      break;
  }
  if (tile.plain) return store_rows<WholeSteps, Shift::kNone, false>(tile, acc);
  store_rows<WholeSteps, Shift::kAdded, true>(tile, acc);
}

}  // namespace
}  // namespace calib8::engine
