// Conv for neoni8mm: products of matrices, 2 pixels × 8 bytes by 2 channels × 8 weights (usmmla). Stored
// codes are bytes without a sign, so pixels are read where they lie.
#include <arm_neon.h>

// The loop of a tile as assembly, so that no compiler spills its sums: v0 … v23 are the sums, eight vectors
// per pair of rows, v24 … v27 four pairs of channels, v28 … v30 the pairs of rows.
#define CALIB8_LOAD(pair, a, b, c, d, e, f, g, h)                                                  \
  "ldp q" #a ", q" #b ", [%[tile], #128*" #pair "]\n\tldp q" #c ", q" #d ", [%[tile], #128*" #pair \
  "+32]\n\tldp q" #e ", q" #f ", [%[tile], #128*" #pair "+64]\n\tldp q" #g ", q" #h                \
  ", [%[tile], #128*" #pair "+96]\n\t"
#define CALIB8_STORE(pair, a, b, c, d, e, f, g, h)                                                 \
  "stp q" #a ", q" #b ", [%[tile], #128*" #pair "]\n\tstp q" #c ", q" #d ", [%[tile], #128*" #pair \
  "+32]\n\tstp q" #e ", q" #f ", [%[tile], #128*" #pair "+64]\n\tstp q" #g ", q" #h                \
  ", [%[tile], #128*" #pair "+96]\n\t"
#define CALIB8_PAIR(pair, values, upper, lower) \
  "ldr d" #values ", [%[row" #upper "]], #8\n\tld1 {v" #values ".d}[1], [%[row" #lower "]], #8\n\t"
#define CALIB8_FOUR(values, a, b, c, d)                                                           \
  "usmmla v" #a ".4s, v" #values ".16b, v24.16b\n\tusmmla v" #b ".4s, v" #values                  \
  ".16b, v25.16b\n\tusmmla v" #c ".4s, v" #values ".16b, v26.16b\n\tusmmla v" #d ".4s, v" #values \
  ".16b, v27.16b\n\t"
#define CALIB8_PAIRS_1 CALIB8_PAIR(0, 28, 0, 1)
#define CALIB8_PAIRS_2 CALIB8_PAIRS_1 CALIB8_PAIR(1, 29, 2, 3)
#define CALIB8_PAIRS_3 CALIB8_PAIRS_2 CALIB8_PAIR(2, 30, 4, 5)
#define CALIB8_UPPER_1 CALIB8_FOUR(28, 0, 1, 2, 3)
#define CALIB8_UPPER_2 CALIB8_UPPER_1 CALIB8_FOUR(29, 8, 9, 10, 11)
#define CALIB8_UPPER_3 CALIB8_UPPER_2 CALIB8_FOUR(30, 16, 17, 18, 19)
#define CALIB8_LOWER_1 CALIB8_FOUR(28, 4, 5, 6, 7)
#define CALIB8_LOWER_2 CALIB8_LOWER_1 CALIB8_FOUR(29, 12, 13, 14, 15)
#define CALIB8_LOWER_3 CALIB8_LOWER_2 CALIB8_FOUR(30, 20, 21, 22, 23)
#define CALIB8_EACH_1(what) what(0, 0, 1, 2, 3, 4, 5, 6, 7)
#define CALIB8_EACH_2(what) CALIB8_EACH_1(what) what(1, 8, 9, 10, 11, 12, 13, 14, 15)
#define CALIB8_EACH_3(what) CALIB8_EACH_2(what) what(2, 16, 17, 18, 19, 20, 21, 22, 23)
#define CALIB8_LOAD_WEIGHTS "ld1 {v24.16b, v25.16b, v26.16b, v27.16b}, [%[weights]], #64\n\t"
#define CALIB8_TILE_LOOP(pairs)                                                                             \
  asm volatile(CALIB8_EACH_##pairs(CALIB8_LOAD) "1:\n\t" CALIB8_LOAD_WEIGHTS CALIB8_PAIRS_##pairs           \
                   CALIB8_UPPER_##pairs CALIB8_LOAD_WEIGHTS CALIB8_LOWER_##pairs                            \
               "subs %[count], %[count], #1\n\tb.ne 1b\n\t" CALIB8_EACH_##pairs(CALIB8_STORE)               \
               : [weights] "+r"(weights), [count] "+r"(count), [row0] "+r"(row[0]), [row1] "+r"(row[1]),    \
                 [row2] "+r"(row[2]), [row3] "+r"(row[3]), [row4] "+r"(row[4]), [row5] "+r"(row[5])         \
               : [tile] "r"(tile)                                                                           \
               : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",  \
                 "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", \
                 "v25", "v26", "v27", "v28", "v29", "v30")

#include "conv_set_neon.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

struct NeonI8mm : NeonSums {
  using Cell = uint8_t;
  struct Section {
    const int8_t* weights;  // [pairs of quads][pairs of channels][2][8]
  };
  static constexpr bool kDirect = true;
  static constexpr int64_t kSection = 2 * kSectionQuads;  // their weights fill the scratch memory

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) vst1q_u8(target + i, vld1q_u8(source + i));
  }
  static void start(const int32_t* bias, const int32_t*, int32_t* acc) {
    std::memcpy(acc, bias, kStrip * sizeof *acc);
  }

  // Quads of two rows side by side; behind the last one zeros.
  static Section section(const int8_t* weights, int64_t stride, int64_t quads, uint8_t* buffer) {
    auto* target = reinterpret_cast<int8_t*>(buffer);
    for (int64_t quad = 0; quad < quads; quad += 2, weights += 2 * stride) {
      for (int i = 0; i < 4; ++i, target += 32) {
        const int32x4_t now = vreinterpretq_s32_s8(vld1q_s8(weights + 16 * i));
        const int32x4_t next =
            quad + 1 < quads ? vreinterpretq_s32_s8(vld1q_s8(weights + stride + 16 * i)) : vdupq_n_s32(0);
        vst1q_s8(target, vreinterpretq_s8_s32(vzip1q_s32(now, next)));
        vst1q_s8(target + 16, vreinterpretq_s8_s32(vzip2q_s32(now, next)));
      }
    }
    return {reinterpret_cast<const int8_t*>(buffer)};
  }

  // A pair of rows and a pair of channels to a vector; a row without a partner is taken twice.
  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    constexpr int kPairs = (rows + 1) / 2;
    alignas(64) int32_t tile[kPairs * 32];
    const uint8_t* row[6];
    for (int i = 0; i < 6; ++i) row[i] = cells[i < rows ? i : rows - 1];
    for (int pair = 0; pair < kPairs; ++pair) {
      const int32_t* upper = acc + 2 * pair * kStrip;
      paired(upper, 2 * pair + 1 < rows ? upper + kStrip : upper, tile + 32 * pair);
    }
    const int8_t* weights = section.weights;
    int64_t count = (quads + 1) / 2;
    if constexpr (kPairs == 1) CALIB8_TILE_LOOP(1);
    if constexpr (kPairs == 2) CALIB8_TILE_LOOP(2);
    if constexpr (kPairs == 3) CALIB8_TILE_LOOP(3);
    for (int pair = 0; pair < kPairs; ++pair) {
      int32_t* upper = acc + 2 * pair * kStrip;
      int32_t last[kStrip];
      parted(tile + 32 * pair, upper, 2 * pair + 1 < rows ? upper + kStrip : last);
    }
  }

  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int vectors = 4 * width;
    int32x4_t sums[vectors];
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) sums[i] = vld1q_s32(acc + 4 * i);
    for (int64_t quad = 0; quad < quads; ++quad, weights += 16 * vectors) {
      uint32_t bytes;
      std::memcpy(&bytes, input + 4 * quad, sizeof bytes);
      const uint8x16_t values = vreinterpretq_u8_u32(vdupq_n_u32(bytes));
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) sums[i] = vusdotq_s32(sums[i], values, vld1q_s8(weights + 16 * i));
    }
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) vst1q_s32(acc + 4 * i, sums[i]);
  }

 private:
  // Rows of sums ⇄ two channels of both rows in a vector.
  static void paired(const int32_t* upper, const int32_t* lower, int32_t* tile) {
    for (int i = 0; i < 4; ++i, tile += 8) {
      const int64x2_t first = vreinterpretq_s64_s32(vld1q_s32(upper + 4 * i));
      const int64x2_t other = vreinterpretq_s64_s32(vld1q_s32(lower + 4 * i));
      vst1q_s32(tile, vreinterpretq_s32_s64(vzip1q_s64(first, other)));
      vst1q_s32(tile + 4, vreinterpretq_s32_s64(vzip2q_s64(first, other)));
    }
  }
  static void parted(const int32_t* tile, int32_t* upper, int32_t* lower) {
    for (int i = 0; i < 4; ++i, tile += 8) {
      const int64x2_t first = vreinterpretq_s64_s32(vld1q_s32(tile));
      const int64x2_t other = vreinterpretq_s64_s32(vld1q_s32(tile + 4));
      vst1q_s32(upper + 4 * i, vreinterpretq_s32_s64(vzip1q_s64(first, other)));
      vst1q_s32(lower + 4 * i, vreinterpretq_s32_s64(vzip2q_s64(first, other)));
    }
  }
};

}  // namespace

void conv_neoni8mm(const Conv& step, const Memory& memory, Part part) {
  ConvTiles<NeonI8mm>(step, memory).run(part);
}

}  // namespace calib8::engine
