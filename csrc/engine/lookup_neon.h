// y[i] = table[x[i]] over 256 entries in registers of Arm: four tables of 64 entries. An instruction leaves a
// byte as it is where its code, counted from the beginning of the table, is none of 0 … 63. count is a
// multiple of 16.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline uint8x16_t look_up_16(const uint8x16x4_t (&quarters)[4], uint8x16_t codes) {
  const uint8x16_t next = vdupq_n_u8(64);
  uint8x16_t found = vqtbl4q_u8(quarters[0], codes);
  for (int quarter = 1; quarter < 4; ++quarter) {
    codes = vsubq_u8(codes, next);
    found = vqtbx4q_u8(found, quarters[quarter], codes);
  }
  return found;
}

inline void look_up(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  const uint8x16x4_t quarters[] = {vld1q_u8_x4(table), vld1q_u8_x4(table + 64), vld1q_u8_x4(table + 128),
                                   vld1q_u8_x4(table + 192)};
  for (int64_t i = 0; i < count; i += 16) vst1q_u8(y + i, look_up_16(quarters, vld1q_u8(x + i)));
}

}  // namespace
}  // namespace calib8::engine
