// The roof of avxvnni: sums of four products in 8 lanes.
#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_avxvnni(int64_t rounds) {
  const __m256i codes = _mm256_set1_epi8(3), weights = _mm256_set1_epi8(1), zero = _mm256_setzero_si256();
  const auto step = [&](__m256i& acc) {
    acc = _mm256_dpbusd_avx_epi32(acc, codes, weights);
    asm volatile("" : "+x"(acc));  // every sum counts
  };
  return 32 *
         keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
