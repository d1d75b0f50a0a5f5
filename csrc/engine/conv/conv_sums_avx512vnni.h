// The sums of one register tile of a convolution: a few pixels times a panel of 16 … 64 output channels.
//
//   acc[i][j] += Σ_k u8 pixel[i][k] · s8 weight[k][16·j …]      vpdpbusd, four products a lane
//
// The instructions of the inner loop are written as assembly, one each, so that no compiler moves
// accumulators to the stack. Everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "conv_shapes_avx512vnni.h"
#include "split_factors.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline void prepare_lanes(const int32_t* multiplier, const int32_t* shift, bool single, FixedLanes& lanes) {
  for (int64_t c = 0; c < 16; ++c) {
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
[[gnu::always_inline]] inline void add_sums(const int32_t* sums, __m512i (&acc)[mr][width]) {
  repeat<mr>([&](auto i) CALIB8_INLINE {
    repeat<width>([&](auto j) CALIB8_INLINE {
      acc[i][j] = _mm512_add_epi32(acc[i][j], _mm512_load_si512(sums + 64 * i + 16 * j));
    });
  });
}

template <int mr, int width>
[[gnu::always_inline]] inline void accumulate(const Tile& tile, __m512i (&acc)[mr][width]) {
  constexpr int kUnroll = 4;
  repeat<width>([&](auto j) CALIB8_INLINE {
    const __m512i bias = _mm512_loadu_si512(tile.bias + 16 * j);
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = bias; });
  });
  if (tile.sums != nullptr) return add_sums(tile.sums, acc);
  const uint8_t* pixels[mr];
  repeat<mr>([&](auto i) CALIB8_INLINE { pixels[i] = tile.input + tile.input_offsets[i]; });
  constexpr bool kTurns = mr == 1;  // too few sums to hide how long a product takes: two sets in turns
  // A single pixel reads all weights once: they are fetched for the next panel, as many as are used.
  constexpr int kLines = mr == 1 ? width : 1;
  constexpr auto kInto = mr == 1 ? _MM_HINT_T0 : _MM_HINT_T1;
  __m512i other[mr][width];
  if constexpr (kTurns) repeat<width>([&](auto j) CALIB8_INLINE { other[0][j] = _mm512_setzero_si512(); });
  const int8_t* weights = tile.weights;
  const int8_t* prefetch = tile.prefetch;
  for (int64_t t = 0; t < tile.tap_count; ++t) {
    int64_t index = tile.taps[t];
    int64_t quads = tile.quads;
    asm volatile("" : "+r"(quads));  // keeps the compiler from a second copy of the loop for shallow taps
    for (; quads >= kUnroll; quads -= kUnroll) {
      repeat<kUnroll>([&](auto ahead) CALIB8_INLINE {
        repeat<kLines>([&](auto line) CALIB8_INLINE {
          _mm_prefetch(reinterpret_cast<const char*>(prefetch + (ahead * kLines + line) * 64), kInto);
        });
        take_quad<ahead>(kTurns && ahead % 2 == 1 ? other : acc, pixels, index, weights);
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
  if constexpr (kTurns) {
    repeat<width>([&](auto j) CALIB8_INLINE { acc[0][j] = _mm512_add_epi32(acc[0][j], other[0][j]); });
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

}  // namespace
}  // namespace calib8::engine
