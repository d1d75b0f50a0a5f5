// Conv for neondot: four products of signed bytes at a time, added in int32 (sdot).
//
//   Σ x·w = Σ (x − 128)·w + 128 · Σ w,    x stored codes, x − 128 = x ^ 0x80 as a signed byte
#include <arm_neon.h>

#include "conv_tiles.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

// An activation is a signed byte; weights are read where they lie.
struct NeonDot {
  using Cell = int8_t;
  struct Section {
    const int8_t* weights;
    int64_t stride;
  };
  static constexpr bool kBytes = false;
  static constexpr int64_t kSection = INT64_MAX;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      vst1q_s8(target + i, vreinterpretq_s8_u8(veorq_u8(vld1q_u8(source + i), vdupq_n_u8(0x80))));
    }
  }

  static void start(const int32_t* bias, const int32_t* weight_sums, int32_t* acc) {
    for (int i = 0; i < kStrip; i += 4) {
      vst1q_s32(acc + i, vaddq_s32(vld1q_s32(bias + i), vshlq_n_s32(vld1q_s32(weight_sums + i), 7)));
    }
  }

  static void float_codes(const StripRescale& rule, const int32_t* acc, uint8_t* codes) {
    engine::float_codes(rule, acc, codes);
  }
  static void add(const SumRule& rule, const uint8_t* lhs, const uint8_t* rhs, uint8_t* codes) {
    add_strips(rule, lhs, rhs, codes);
  }

  static Section section(const int8_t* weights, int64_t stride, int64_t, uint8_t*) {
    return {weights, stride};
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    int32x4_t sums[rows][4];
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) sums[row][i] = vld1q_s32(acc + kStrip * row + 4 * i);
    }
    const int8_t* weights = section.weights;
    for (int64_t quad = 0; quad < quads; ++quad, weights += section.stride) {
      int8x16_t filter[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) filter[i] = vld1q_s8(weights + 16 * i);
#pragma GCC unroll 6
      for (int row = 0; row < rows; ++row) {
        const int8x16_t values = four(cells[row] + 4 * quad);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) sums[row][i] = vdotq_s32(sums[row][i], filter[i], values);
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) vst1q_s32(acc + kStrip * row + 4 * i, sums[row][i]);
    }
  }

  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 4 * width;
    int32x4_t sums[vectors];
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) sums[i] = vld1q_s32(acc + 4 * i);
    const int8x16_t sign = vdupq_n_s8(-128);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 16 * vectors) {
      const int8x16_t values = veorq_s8(four(input + 4 * quad), sign);
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) sums[i] = vdotq_s32(sums[i], vld1q_s8(weights + 16 * i), values);
    }
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) vst1q_s32(acc + 4 * i, sums[i]);
  }

  static int8x16_t four(const void* place) {
    int32_t bytes;
    std::memcpy(&bytes, place, sizeof bytes);
    return vreinterpretq_s8_s32(vdupq_n_s32(bytes));
  }
};

}  // namespace

void neondot_conv(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<NeonDot>(step, memory).run(part);
}

}  // namespace calib8::engine
