// Conv for avxvnni: four products of bytes at a time, added in int32 (vpdpbusd of 32-byte vectors).
#include <immintrin.h>

#include "conv_tiles.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

// An activation is a byte as it is stored; weights are read where they lie.
struct AvxVnni {
  using Cell = uint8_t;
  struct Section {
    const int8_t* weights;
    int64_t stride;
  };
  static constexpr bool kBytes = true;
  static constexpr int64_t kSection = INT64_MAX;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + i), bytes);
    }
  }

  static void start(const int32_t* bias, const int32_t*, int32_t* acc) {
    std::memcpy(acc, bias, kStrip * sizeof *acc);
  }

  static Section section(const int8_t* weights, int64_t stride, int64_t, uint8_t*) {
    return {weights, stride};
  }

  static __m256i dot(__m256i sum, __m256i activations, __m256i weights) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, activations, weights);
#else
    return _mm256_dpbusd_epi32(sum, activations, weights);
#endif
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    __m256i sums[rows][2];
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      sums[row][0] = load(acc + kStrip * row);
      sums[row][1] = load(acc + kStrip * row + 8);
    }
    const Cell* places[rows];
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) places[row] = cells[row];
    const int8_t* weights = section.weights;
    for (int64_t quad = 0; quad < quads; ++quad, weights += section.stride) {
      const __m256i left = load(weights), right = load(weights + 32);
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row) {
        const __m256i values = four(places[row] + 4 * quad);
        sums[row][0] = dot(sums[row][0], values, left);
        sums[row][1] = dot(sums[row][1], values, right);
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      store(acc + kStrip * row, sums[row][0]);
      store(acc + kStrip * row + 8, sums[row][1]);
    }
  }

  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 2 * width;
    __m256i sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = load(acc + 8 * i);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 32 * vectors) {
      const __m256i values = four(input + 4 * quad);
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) sums[i] = dot(sums[i], values, load(weights + 32 * i));
    }
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) store(acc + 8 * i, sums[i]);
  }

  static __m256i four(const uint8_t* place) {
    int32_t bytes;
    std::memcpy(&bytes, place, sizeof bytes);
    return _mm256_set1_epi32(bytes);
  }
  static __m256i load(const void* place) { return _mm256_loadu_si256(static_cast<const __m256i*>(place)); }
  static void store(int32_t* place, __m256i sums) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(place), sums);
  }
};

}  // namespace

void avxvnni_conv(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<AvxVnni>(step, memory).run(part);
}

}  // namespace calib8::engine
