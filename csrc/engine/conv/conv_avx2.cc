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
#include "word_tiles_x86.h"

namespace calib8::engine {

void conv_pairs_avx2(const Conv& step, const Memory& memory, Part part);
void conv_pairs_of_bytes_avx2(const WideConv& step, const Memory& memory, Part part);

namespace {

struct Avx2 : WordTiles<uint16_t> {
  static constexpr bool kDirect = false;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(target + i), _mm256_cvtepu8_epi16(bytes));
    }
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

void conv_avx2(const Conv& step, const Memory& memory, Part part) {
  if (memory.pair_sums_fit) return conv_pairs_avx2(step, memory, part);
  ConvTiles<Avx2>(step, memory).run(part);
}

void conv_of_bytes_avx2(const WideConv& step, const Memory& memory, Part part) {
  if (memory.pair_sums_fit) return conv_pairs_of_bytes_avx2(step, memory, part);
  ConvTiles<Avx2>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
