// Conv for neondot: four products of signed bytes at a time, added in int32 (sdot).
//
//   Σ x·w = Σ (x − 128)·w + 128 · Σ w,    x stored codes, x − 128 = x ^ 0x80 as a signed byte
#include <arm_neon.h>

// The loop of a tile as assembly, so that no compiler spills its sums: v0 … v23 are the sums, four vectors
// per row, v24 … v27 the weights of 16 channels, v28 four cells of a row, repeated.
#define CALIB8_LOAD(row, a, b, c, d) \
  "ldp q" #a ", q" #b ", [%[acc], #64*" #row "]\n\tldp q" #c ", q" #d ", [%[acc], #64*" #row "+32]\n\t"
#define CALIB8_STORE(row, a, b, c, d) \
  "stp q" #a ", q" #b ", [%[acc], #64*" #row "]\n\tstp q" #c ", q" #d ", [%[acc], #64*" #row "+32]\n\t"
#define CALIB8_ROW(row, a, b, c, d)                \
  "ld1r {v28.4s}, [%[row" #row                     \
  "]], #4\n\t"                                     \
  "sdot v" #a ".4s, v24.16b, v28.16b\n\tsdot v" #b \
  ".4s, v25.16b, v28.16b\n\t"                      \
  "sdot v" #c ".4s, v26.16b, v28.16b\n\tsdot v" #d ".4s, v27.16b, v28.16b\n\t"
#define CALIB8_EACH_1(what) what(0, 0, 1, 2, 3)
#define CALIB8_EACH_2(what) CALIB8_EACH_1(what) what(1, 4, 5, 6, 7)
#define CALIB8_EACH_3(what) CALIB8_EACH_2(what) what(2, 8, 9, 10, 11)
#define CALIB8_EACH_4(what) CALIB8_EACH_3(what) what(3, 12, 13, 14, 15)
#define CALIB8_EACH_5(what) CALIB8_EACH_4(what) what(4, 16, 17, 18, 19)
#define CALIB8_EACH_6(what) CALIB8_EACH_5(what) what(5, 20, 21, 22, 23)
#define CALIB8_TILE_LOOP(rows) \
  asm volatile(CALIB8_EACH_##rows(CALIB8_LOAD)                                                            \
               "1:\n\tld1 {v24.16b, v25.16b, v26.16b, v27.16b}, [%[weights]], %[stride]\n\t"              \
               CALIB8_EACH_##rows(CALIB8_ROW)                                                             \
               "subs %[quads], %[quads], #1\n\tb.ne 1b\n\t" CALIB8_EACH_##rows(CALIB8_STORE)              \
               : [weights] "+r"(weights), [quads] "+r"(quads), [row0] "+r"(row[0]), [row1] "+r"(row[1]),  \
                 [row2] "+r"(row[2]), [row3] "+r"(row[3]), [row4] "+r"(row[4]), [row5] "+r"(row[5])       \
               : [acc] "r"(acc), [stride] "r"(section.stride)                                             \
               : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",       \
                 "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",      \
                 "v23", "v24", "v25", "v26", "v27", "v28")

#include "conv_tiles.h"
#include "kernels.h"
#include "plain_words_end.h"

namespace calib8::engine {
namespace {

// An activation is a signed byte; weights are read where they lie.
struct NeonDot {
  using Cell = int8_t;
  struct Section {
    const int8_t* weights;
    int64_t stride;
  };
  static constexpr bool kDirect = false;
  using WordsEnd = PlainWordsEnd;
  using Fixed = NoFixedStrip;
  static constexpr int64_t kSection = INT64_MAX;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      vst1q_s8(target + i, vreinterpretq_s8_u8(veorq_u8(vld1q_u8(source + i), vdupq_n_u8(0x80))));
    }
  }

  // The lower bytes of 16-bit codes, and the upper ones, which have a sign already.
  static void take(const int16_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const uint8x16x2_t planes = vld2q_u8(reinterpret_cast<const uint8_t*>(source + i));
      vst1q_s8(target + i, vreinterpretq_s8_u8(veorq_u8(planes.val[0], vdupq_n_u8(0x80))));
    }
  }
  static void take_upper(const int16_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      vst1q_s8(target + i, vld2q_s8(reinterpret_cast<const int8_t*>(source + i)).val[1]);
    }
  }

  static void start(const int32_t* bias, const int32_t* weight_sums, int32_t* acc) {
    for (int i = 0; i < kStrip; i += 4) {
      vst1q_s32(acc + i, vaddq_s32(vld1q_s32(bias + i), vshlq_n_s32(vld1q_s32(weight_sums + i), 7)));
    }
  }

  // A row of 32 words is 64 bytes, as many as one table instruction reaches.
  struct Curve {
    uint8x16x4_t value, slope, bend;
    int16x8_t least, most, below, above, left, right;

    Curve(const Activation& curve, const Memory& memory) {
      if (curve.kind != Activation::kCurve) return;
      const auto* rows = memory.constant<uint8_t>(curve.segments);
      value = vld1q_u8_x4(rows), slope = vld1q_u8_x4(rows + 64), bend = vld1q_u8_x4(rows + 128);
      least = all(curve.least()), most = all(curve.most());
      below = all(curve.below), above = all(curve.above);
      left = all(15 - curve.shift), right = all(-curve.shift);
    }
    static int16x8_t all(int64_t number) { return vdupq_n_s16(static_cast<int16_t>(number)); }

    int16x8_t operator()(int16x8_t v) const {
      const int16x8_t u = vminq_s16(vmaxq_s16(v, least), most), none = vdupq_n_s16(0);
      const int16x8_t d = vandq_s16(vshlq_s16(u, left), vdupq_n_s16(0x7fff));
      const int16x8_t place = vandq_s16(vshlq_s16(u, right), vdupq_n_s16(31));
      const uint8x16_t bytes = vreinterpretq_u8_s16(vmlaq_n_s16(vdupq_n_s16(0x0100), place, 0x0202));
      const auto picked = [&](const uint8x16x4_t& row) {
        return vreinterpretq_s16_u8(vqtbl4q_u8(row, bytes));
      };
      const int16x8_t bent = vaddq_s16(vqrdmulhq_s16(picked(bend), d), picked(slope));
      const int16x8_t t = vqaddq_s16(picked(value), vqrdmulhq_s16(bent, d));
      const int16x8_t far = vqsubq_s16(v, u);
      const int16x8_t up = vqrdmulhq_s16(vmaxq_s16(far, none), above);
      const int16x8_t down = vqrdmulhq_s16(vminq_s16(far, none), below);
      return vshrq_n_s16(vqaddq_s16(t, vaddq_s16(up, down)), 6);
    }
  };

  static void float_steps(const StripRescale& rule, const int32_t* acc, int16_t* steps) {
    engine::float_codes(rule, acc, steps);
  }
  static void curve_words(const Curve& curve, const int16_t* steps, int32_t low, int32_t high,
                          uint8_t* codes) {
    const uint8x16_t least = vdupq_n_u8(static_cast<uint8_t>(low)),
                     most = vdupq_n_u8(static_cast<uint8_t>(high));
    for (int i = 0; i < 2 * kStrip; i += kStrip) {
      const int16x8_t left = curve(vld1q_s16(steps + i)), right = curve(vld1q_s16(steps + i + 8));
      const uint8x16_t bytes = vcombine_u8(vqmovun_s16(left), vqmovun_s16(right));
      vst1q_u8(codes + i, vminq_u8(vmaxq_u8(bytes, least), most));
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
    const Cell* row[6];
    for (int i = 0; i < 6; ++i) row[i] = cells[i < rows ? i : 0];
    const int8_t* weights = section.weights;
    if constexpr (rows == 1) CALIB8_TILE_LOOP(1);
    if constexpr (rows == 2) CALIB8_TILE_LOOP(2);
    if constexpr (rows == 3) CALIB8_TILE_LOOP(3);
    if constexpr (rows == 4) CALIB8_TILE_LOOP(4);
    if constexpr (rows == 5) CALIB8_TILE_LOOP(5);
    if constexpr (rows == 6) CALIB8_TILE_LOOP(6);
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

void conv_neondot(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<NeonDot>(step, memory).run(part);
}

void wide_conv_neondot(const WideConv& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return ConvTiles<NeonDot>(step.layer, memory, step.output_size).run(part);
  ConvTiles<NeonDot, int16_t>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
