// Conv for avx2 where products of two bytes fit into int16 (pair_sums.h): vpmaddubsw, then vpmaddwd by ones.
// Six instructions for 64 products where conv_avx2.cc has eight, and nothing is widened before.
#include <immintrin.h>

#define CALIB8_READY                       \
  "vpcmpeqw %%ymm13, %%ymm13, %%ymm13\n\t" \
  "vpsrlw $15, %%ymm13, %%ymm13\n\t"  // ones
#define CALIB8_ROUND_WEIGHTS          // are operands of the products
#define CALIB8_PRODUCTS(first, second)              \
  "vpmaddubsw (%[weights]), %%ymm14, %%ymm15\n\t"   \
  "vpmaddubsw 32(%[weights]), %%ymm14, %%ymm12\n\t" \
  "vpmaddwd %%ymm13, %%ymm15, %%ymm15\n\t"          \
  "vpmaddwd %%ymm13, %%ymm12, %%ymm12\n\t"          \
  "vpaddd %%ymm15, %%ymm" #first ", %%ymm" #first   \
  "\n\t"                                            \
  "vpaddd %%ymm12, %%ymm" #second ", %%ymm" #second "\n\t"

#include "byte_tiles_x86.h"
#include "conv_tiles.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

struct BytesToInt16 {
  static __m256i dot(__m256i sums, __m256i activations, __m256i weights) {
    const __m256i pairs = _mm256_maddubs_epi16(activations, weights);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

using Pairs = ByteTiles<BytesToInt16>;

}  // namespace

void conv_pairs_avx2(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<Pairs>(step, memory).run(part);
}

void conv_pairs_of_bytes_avx2(const WideConv& step, const Memory& memory, Part part) {
  ConvTiles<Pairs>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
