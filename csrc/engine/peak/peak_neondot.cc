// The roof of neondot: sums of four products in 4 lanes.
#include <arm_neon.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_neondot(int64_t rounds) {
  const int8x16_t codes = vdupq_n_s8(3), weights = vdupq_n_s8(1);
  const int32x4_t zero = vdupq_n_s32(0);
  const auto step = [&](int32x4_t& acc) {
    acc = vdotq_s32(acc, codes, weights);
    asm volatile("" : "+w"(acc));  // every sum counts
  };
  return 16 * keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                          zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
