// Conv for avx2: activations and weights widened to int16, products of pairs added in int32 (vpmaddwd):
// exact.
#include <immintrin.h>

#include "conv_tiles.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

// An activation is a uint16, a section of weights int16 [quads][two pairs][16 channels][2].
struct Avx2 {
  using Cell = uint16_t;
  using Section = const __m256i*;
  static constexpr bool kBytes = false;
  static constexpr int64_t kSection = kSectionQuads;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i), _mm256_cvtepu8_epi16(bytes));
    }
  }

  static void start(const int32_t* bias, const int32_t*, int32_t* acc) {
    std::memcpy(acc, bias, kStrip * sizeof *acc);
  }

  static Section section(const int8_t* weights, int64_t stride, int64_t quads, uint8_t* scratch) {
    auto* target = reinterpret_cast<__m256i*>(scratch);
    for (int64_t quad = 0; quad < quads; ++quad, weights += stride, target += 4) {
      for (int half = 0; half < 2; ++half) {
        const __m256i bytes = load(weights + half * 32);
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        const __m256i odd = _mm256_srai_epi16(bytes, 8);
        target[half] = _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xAA);
        target[2 + half] = _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xAA);
      }
    }
    return reinterpret_cast<Section>(scratch);
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section weights, int64_t quads, int32_t* acc) {
    __m256i sums[rows][2];
    auto* target = reinterpret_cast<__m256i*>(acc);
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      sums[row][0] = _mm256_loadu_si256(target + 2 * row);
      sums[row][1] = _mm256_loadu_si256(target + 2 * row + 1);
    }
    const Cell* places[rows];
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) places[row] = cells[row];
    for (int64_t pair = 0; pair < 2 * quads; ++pair, weights += 2) {
      const __m256i left = weights[0], right = weights[1];
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row) {
        int32_t two;
        std::memcpy(&two, places[row] + 2 * pair, sizeof two);
        const __m256i values = _mm256_set1_epi32(two);
        sums[row][0] = _mm256_add_epi32(sums[row][0], _mm256_madd_epi16(values, left));
        sums[row][1] = _mm256_add_epi32(sums[row][1], _mm256_madd_epi16(values, right));
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
      _mm256_storeu_si256(target + 2 * row, sums[row][0]);
      _mm256_storeu_si256(target + 2 * row + 1, sums[row][1]);
    }
  }

  // Bytes with an even place and those with an odd one apart: no widened copy of the weights.
  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 2 * width;
    __m256i sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = load(acc + 8 * i);
    const __m256i low = _mm256_set1_epi16(0xFF);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 32 * vectors) {
      int32_t four;
      std::memcpy(&four, input + 4 * quad, sizeof four);
      const __m256i values = _mm256_set1_epi32(four);
      const __m256i even = _mm256_and_si256(values, low), odd = _mm256_srli_epi16(values, 8);
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) {
        const __m256i bytes = load(weights + 32 * i);
        const __m256i first = _mm256_madd_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
        const __m256i second = _mm256_madd_epi16(odd, _mm256_srai_epi16(bytes, 8));
        sums[i] = _mm256_add_epi32(sums[i], _mm256_add_epi32(first, second));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(acc + 8 * i), sums[i]);
  }

  static __m256i load(const void* place) { return _mm256_loadu_si256(static_cast<const __m256i*>(place)); }
};

}  // namespace

void avx2_conv(const Conv& step, const Memory& memory, Part part) { ConvTiles<Avx2>(step, memory).run(part); }

}  // namespace calib8::engine
