// Conv with 16-bit codes for avxvnni: products of pairs of words, added in int32 (vpdpwssd).
#include <immintrin.h>

// On machines that have them only in the form of AVX-512 (their own tests), the same products are encoded so.
#if defined(__AVXVNNI__)
#define CALIB8_ENCODING "%{vex%} "
#else
#define CALIB8_ENCODING ""
#endif
#define CALIB8_PRODUCTS(first, second)                                             \
  CALIB8_ENCODING "vpdpwssd %%ymm12, %%ymm14, %%ymm" #first "\n\t" CALIB8_ENCODING \
                  "vpdpwssd %%ymm13, %%ymm14, %%ymm" #second "\n\t"

#include "conv_tiles.h"
#include "kernels.h"
#include "word_tiles_x86.h"

namespace calib8::engine {

void avxvnni_conv_of_bytes(const WideConv& step, const Memory& memory, Part part);

namespace {

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

void avxvnni_wide_conv(const WideConv& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return avxvnni_conv_of_bytes(step, memory, part);
  ConvTiles<Words16, int16_t>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
