// The roof of avx512vnni: sums of four products in 16 lanes.
#include <immintrin.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_avx512vnni(int64_t rounds) {
  const __m512i codes = _mm512_set1_epi8(3), weights = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
  const auto step = [&](__m512i& acc) {
    acc = _mm512_dpbusd_epi32(acc, codes, weights);
    asm volatile("" : "+v"(acc));  // every sum counts
  };
  return 64 * keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                          zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
