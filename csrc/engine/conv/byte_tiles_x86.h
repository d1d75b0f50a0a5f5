// Tiles of bytes in 32-byte vectors: an activation is a byte as it is stored, weights are read where they
// lie. A file defines CALIB8_PRODUCTS, and what else it wants of tile_loop.h, before it includes this.
#pragma once

#include "tile_loop.h"
#include "words_end_x86.h"

#ifndef CALIB8_ROUND_WEIGHTS
#define CALIB8_ROUND_WEIGHTS CALIB8_WEIGHTS(0)
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// `Dot` has dot(sums, activations, weights): four products of bytes at a time, added to eight sums.
template <class Dot>
struct ByteTiles : StripSumsWithWords {
  using Cell = uint8_t;
  struct Section {
    const int8_t* weights;
    int64_t stride;
  };
  static constexpr bool kDirect = true;
  static constexpr int64_t kSection = INT64_MAX;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), bytes);
    }
  }

  static Section section(const int8_t* weights, int64_t stride, int64_t, uint8_t*) {
    return {weights, stride};
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    const RowEnds<rows, Cell> row(cells, quads * 4);
    const int8_t* weights = section.weights;
    const int64_t stride = section.stride;
    int64_t place = -4 * quads;
#define CALIB8_ROUND(rows) \
  CALIB8_ROUND_WEIGHTS CALIB8_ROWS_##rows(0) "add %[stride], %[weights]\n\tadd $4, %[place]\n\t"
    CALIB8_TILE(rows);
#undef CALIB8_ROUND
  }

  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 2 * width;
    __m256i sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = L::load(acc + 8 * i);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 32 * vectors) {
      const __m256i values = four(input + 4 * quad);
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) sums[i] = Dot::dot(sums[i], values, L::load(weights + 32 * i));
    }
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) L::store(acc + 8 * i, sums[i]);
  }

  static __m256i four(const uint8_t* place) {
    int32_t bytes;
    std::memcpy(&bytes, place, sizeof bytes);
    return _mm256_set1_epi32(bytes);
  }
};

}  // namespace
}  // namespace calib8::engine
