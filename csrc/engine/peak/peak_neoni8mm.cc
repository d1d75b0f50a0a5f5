// The roof of neoni8mm: sums of eight products in 4 lanes.
#include <arm_neon.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_neoni8mm(int64_t rounds) {
  const uint8x16_t codes = vdupq_n_u8(3);
  const int8x16_t weights = vdupq_n_s8(1);
  const int32x4_t zero = vdupq_n_s32(0);
  const auto step = [&](int32x4_t& acc) {
    acc = vusmmlaq_s32(acc, codes, weights);
    asm volatile("" : "+w"(acc));  // every sum counts
  };
  return 32 * keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                          zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
