// Tiles that read 16-bit codes as they are, in 32-byte vectors. A file defines CALIB8_PRODUCTS (tile_loop.h)
// before it includes this.
#pragma once

#include "conv_tiles.h"
#include "word_tiles_x86.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

struct Words16 : WordTiles<int16_t> {
  static constexpr bool kDirect = true;

  static void take(const int16_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) L::store(target + i, L::load(source + i));
  }

  // Words with an even place and those with an odd one apart: no widened copy of the weights.
  template <int width>
  static void stream(const int16_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 2 * width;
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 0, 1, 4, 5, 2, 3, 6, 7);
    __m256i sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = L::load(acc + 8 * i);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 32 * vectors) {
      int64_t four;
      std::memcpy(&four, input + 4 * quad, sizeof four);
      const __m128i codes = _mm_shuffle_epi8(_mm_cvtsi64_si128(four), order);
      const __m256i even = _mm256_broadcastd_epi32(codes);
      const __m256i odd = _mm256_broadcastd_epi32(_mm_srli_si128(codes, 4));
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) {
        const __m256i bytes = L::load(weights + 32 * i);
        sums[i] = L::add_products16(sums[i], even, L::signed_low_half(bytes));
        sums[i] = L::add_products16(sums[i], odd, L::signed_high_half(bytes));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) L::store(acc + 8 * i, sums[i]);
  }
};

}  // namespace
}  // namespace calib8::engine
