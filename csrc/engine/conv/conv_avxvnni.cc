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

#include "byte_tiles_x86.h"
#include "conv_tiles.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

struct BytesToInt32 {
  static __m256i dot(__m256i sums, __m256i activations, __m256i weights) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sums, activations, weights);
#else
    return _mm256_dpbusd_epi32(sums, activations, weights);
#endif
  }
};

using AvxVnni = ByteTiles<BytesToInt32>;

}  // namespace

void conv_avxvnni(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<AvxVnni>(step, memory).run(part);
}

void conv_of_bytes_avxvnni(const WideConv& step, const Memory& memory, Part part) {
  ConvTiles<AvxVnni>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
