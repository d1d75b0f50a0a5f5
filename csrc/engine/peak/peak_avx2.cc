// The roof of avx2: sums of two products of 16-bit numbers in 8 lanes, each with an addition.
#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_avx2(int64_t rounds) {
  const __m256i weights = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
  __m256i codes = _mm256_set1_epi16(3);
  const auto step = [&](__m256i& acc) {
    asm volatile("" : "+x"(codes));  // as if they had changed: every product is made anew
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(codes, weights));
    asm volatile("" : "+x"(acc));  // every sum counts
  };
  return 16 *
         keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
