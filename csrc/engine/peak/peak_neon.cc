// The roof of neon: two products of 16 bits in 8 lanes, added to sums in 4 lanes.
#include <arm_neon.h>

#include "peak.h"
#include "peak_loop.h"

namespace calib8::engine {

int64_t peak_loop_neon(int64_t rounds) {
  const int8x8_t codes = vdup_n_s8(3), weights = vdup_n_s8(1);
  const int32x4_t zero = vdupq_n_s32(0);
  const auto step = [&](int32x4_t& acc) {
    int16x8_t products = vmull_s8(codes, weights);
    asm volatile("" : "+w"(products));  // nothing is known of it
    acc = vpadalq_s16(acc, vmlal_s8(products, codes, weights));
    asm volatile("" : "+w"(acc));  // every sum counts
  };
  return 16 * keep_adding(rounds, step, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                          zero, zero, zero, zero, zero);
}

}  // namespace calib8::engine
