// The roof of avx2: pairs of products of bytes, added up in 8 lanes, as conv_pairs_avx2.cc does it. Layers
// whose pairs do not fit into int16 widen codes first (conv_avx2.cc): they can reach three quarters of this.
#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_avx2(int64_t rounds) {
  const __m256i ones = _mm256_set1_epi16(1), weights = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
  __m256i codes = _mm256_set1_epi8(3);
  const auto step = [&](__m256i& acc) {
    asm volatile("" : "+x"(codes));  // as if they had changed: every product is made anew
    const __m256i pairs = _mm256_maddubs_epi16(codes, weights);
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
    asm volatile("" : "+x"(acc));  // every sum counts
  };
  return 32 *
         keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
