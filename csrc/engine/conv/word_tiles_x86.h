// Tiles of 16-bit cells in 32-byte vectors: weights widened to int16 a section at a time. A file defines
// CALIB8_PRODUCTS (tile_loop.h) before it includes this.
#pragma once

#include "tile_loop.h"
#include "words_end_x86.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// A section of weights is int16 [quads][two pairs][16 channels][2].
template <class Word>
struct WordTiles : StripSumsWithWords {
  using Cell = Word;
  using Section = const int16_t*;
  static constexpr int64_t kSection = kSectionQuads;

  static Section section(const int8_t* weights, int64_t stride, int64_t quads, uint8_t* scratch) {
    auto* target = reinterpret_cast<__m256i*>(scratch);
    for (int64_t quad = 0; quad < quads; ++quad, weights += stride, target += 4) {
      for (int half = 0; half < 2; ++half) {
        const __m256i bytes = L::load(weights + half * 32);
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        const __m256i odd = _mm256_srai_epi16(bytes, 8);
        target[half] = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
        target[2 + half] = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xAA);
      }
    }
    return reinterpret_cast<Section>(scratch);
  }

  // A round takes four of the depth: two pairs.
  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    const RowEnds<rows, Cell> row(cells, quads * 4);
    const int16_t* weights = section;
    constexpr int64_t stride = 128;
    int64_t place = -8 * quads;
#define CALIB8_ROUND(rows)                 \
  CALIB8_WEIGHTS(0)                        \
  CALIB8_ROWS_##rows(0) CALIB8_WEIGHTS(64) \
      CALIB8_ROWS_##rows(4) "add %[stride], %[weights]\n\tadd $8, %[place]\n\t"
    CALIB8_TILE(rows);
#undef CALIB8_ROUND
  }
};

}  // namespace
}  // namespace calib8::engine
