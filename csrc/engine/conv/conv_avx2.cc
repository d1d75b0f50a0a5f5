// Conv for avx2: activations and weights widened to int16, products of pairs added in int32 (vpmaddwd):
// exact.
#include <immintrin.h>

#define CALIB8_PRODUCTS(first, second)            \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\t"        \
  "vpaddd %%ymm15, %%ymm" #first ", %%ymm" #first \
  "\n\t"                                          \
  "vpmaddwd %%ymm13, %%ymm14, %%ymm15\n\t"        \
  "vpaddd %%ymm15, %%ymm" #second ", %%ymm" #second "\n\t"

#include "conv_tiles.h"
#include "kernels.h"
#include "strip_avx2.h"
#include "tile_loop.h"

namespace calib8::engine {
namespace {

// An activation is a uint16, a section of weights int16 [quads][two pairs][16 channels][2].
struct Avx2 : StripSums {
  using Cell = uint16_t;
  using Section = const int16_t*;
  static constexpr bool kBytes = false;
  static constexpr int64_t kSection = kSectionQuads;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i), _mm256_cvtepu8_epi16(bytes));
    }
  }

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

  // Bytes with an even place and those with an odd one apart: no widened copy of the weights.
  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 2 * width;
    __m256i sums[vectors];
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) sums[i] = L::load(acc + 8 * i);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 32 * vectors) {
      int32_t four;
      std::memcpy(&four, input + 4 * quad, sizeof four);
      const __m256i values = _mm256_set1_epi32(four);
      const __m256i even = _mm256_srli_epi16(_mm256_slli_epi16(values, 8), 8);
      const __m256i odd = _mm256_srli_epi16(values, 8);
#pragma GCC unroll 8
      for (int i = 0; i < vectors; ++i) {
        const __m256i bytes = L::load(weights + 32 * i);
        const __m256i first = _mm256_madd_epi16(even, _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8));
        const __m256i second = _mm256_madd_epi16(odd, _mm256_srai_epi16(bytes, 8));
        sums[i] = _mm256_add_epi32(sums[i], _mm256_add_epi32(first, second));
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < vectors; ++i) L::store(acc + 8 * i, sums[i]);
  }
};

}  // namespace

void avx2_conv(const Conv& step, const Memory& memory, Part part) { ConvTiles<Avx2>(step, memory).run(part); }

}  // namespace calib8::engine
