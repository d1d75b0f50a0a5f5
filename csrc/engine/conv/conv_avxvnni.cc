// Conv for avxvnni: four products of bytes at a time, added in int32 (vpdpbusd of 32-byte vectors).
#include <immintrin.h>

// On machines that have them only in the form of AVX-512 (their own tests), the same products are encoded so.
#if defined(__AVXVNNI__)
#define CALIB8_ENCODING "%{vex%} "
#else
#define CALIB8_ENCODING ""
#endif
#define CALIB8_PRODUCTS(first, second)                                             \
  CALIB8_ENCODING "vpdpbusd %%ymm12, %%ymm14, %%ymm" #first "\n\t" CALIB8_ENCODING \
                  "vpdpbusd %%ymm13, %%ymm14, %%ymm" #second "\n\t"

#include "conv_tiles.h"
#include "kernels.h"
#include "tile_loop.h"
#include "words_end_x86.h"

namespace calib8::engine {
namespace {

// An activation is a byte as it is stored; weights are read where they lie.
struct AvxVnni : StripSumsWithWords {
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

  static __m256i dot(__m256i sum, __m256i activations, __m256i weights) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, activations, weights);
#else
    return _mm256_dpbusd_epi32(sum, activations, weights);
#endif
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    const RowEnds<rows, Cell> row(cells, quads * 4);
    const int8_t* weights = section.weights;
    const int64_t stride = section.stride;
    int64_t place = -4 * quads;
#define CALIB8_ROUND(rows) \
  CALIB8_WEIGHTS(0) CALIB8_ROWS_##rows(0) "add %[stride], %[weights]\n\tadd $4, %[place]\n\t"
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
      for (int i = 0; i < vectors; ++i) sums[i] = dot(sums[i], values, L::load(weights + 32 * i));
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

void conv_avxvnni(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<AvxVnni>(step, memory).run(part);
}

void conv_of_bytes_avxvnni(const WideConv& step, const Memory& memory, Part part) {
  ConvTiles<AvxVnni>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
