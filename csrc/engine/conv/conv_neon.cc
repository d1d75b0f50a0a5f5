// Conv for neon, without dot products: eight products of signed bytes at a time, 16 bits each (smull, smlal),
// pairs of which are added in int32 (sadalp).
//
// Two products fit 16 bits, unless all four factors are −128: where no weight is, pairs are added before they
// are widened.
#include <arm_neon.h>

// The loop of a tile as assembly, so that no compiler spills its sums: v0 … v15 are the sums, eight vectors
// per row, of every channel two that belong together; v16 … v19 the weights of 16 channels, v20 … v23 the
// next ones; v24 and v25 four cells of a row and the next four, repeated, v26 and v27 those of the other row.
#define CALIB8_PRODUCTS(op, to, weights, values) #op " v" #to ".8h, v" #weights ".8b, v" #values ".8b\n\t"
#define CALIB8_PRODUCTS2(op, to, weights, values) #op "2 v" #to ".8h, v" #weights ".16b, v" #values ".16b\n\t"
#define CALIB8_FOUR(op, first, other, values, other_values) \
  CALIB8_PRODUCTS(op, 28, first, values)                    \
  CALIB8_PRODUCTS2(op, 29, first, values)                   \
  CALIB8_PRODUCTS(op, 30, other, other_values) CALIB8_PRODUCTS2(op, 31, other, other_values)
#define CALIB8_ADD(a, b, c, d)                                                                         \
  "sadalp v" #a ".4s, v28.8h\n\tsadalp v" #b ".4s, v29.8h\n\tsadalp v" #c ".4s, v30.8h\n\tsadalp v" #d \
  ".4s, v31.8h\n\t"

// A step of one row is eight channels, one of two rows four channels of both: products with the weights of a
// quad (now), or of two (both).
#define CALIB8_NOW_1(w, v, a, b, c, d) CALIB8_FOUR(smull, w, v, 24, 24) CALIB8_ADD(a, b, c, d)
#define CALIB8_BOTH_1(w, v, next_w, next_v, a, b, c, d) \
  CALIB8_FOUR(smull, w, v, 24, 24) CALIB8_FOUR(smlal, next_w, next_v, 25, 25) CALIB8_ADD(a, b, c, d)
#define CALIB8_NOW_2(w, a, b, c, d) CALIB8_FOUR(smull, w, w, 24, 26) CALIB8_ADD(a, b, c, d)
#define CALIB8_BOTH_2(w, next_w, a, b, c, d) \
  CALIB8_FOUR(smull, w, w, 24, 26) CALIB8_FOUR(smlal, next_w, next_w, 25, 27) CALIB8_ADD(a, b, c, d)

// Loads stand far before what needs them: processors that keep the order of a program would wait.
#define CALIB8_W(to, place) "ldr q" #to ", [%[weights], #" #place "]\n\t"
#define CALIB8_N(to, place) "ldr q" #to ", [%[next], #" #place "]\n\t"
// clang-format off: it comes to no end of these
#define CALIB8_ONE_1                                                                               \
  CALIB8_W(16, 0) CALIB8_W(17, 16) CALIB8_CELLS(24, 0) CALIB8_W(18, 32) CALIB8_W(19, 48)           \
  CALIB8_NOW_1(16, 17, 0, 1, 2, 3) "add %[weights], %[weights], %[stride]\n\t"                     \
  CALIB8_NOW_1(18, 19, 4, 5, 6, 7)
#define CALIB8_TWO_1                                                                               \
  CALIB8_W(16, 0) CALIB8_W(17, 16) CALIB8_CELLS(24, 0) CALIB8_N(20, 0) CALIB8_N(21, 16)            \
  CALIB8_CELLS(25, 0) CALIB8_W(18, 32) CALIB8_W(19, 48)                                            \
  CALIB8_BOTH_1(16, 17, 20, 21, 0, 1, 2, 3) CALIB8_N(22, 32) CALIB8_N(23, 48)                      \
  "add %[weights], %[weights], %[stride], lsl #1\n\tadd %[next], %[next], %[stride], lsl #1\n\t"   \
  CALIB8_BOTH_1(18, 19, 22, 23, 4, 5, 6, 7)
#define CALIB8_ONE_2                                                                               \
  CALIB8_W(16, 0) CALIB8_CELLS(24, 0) CALIB8_CELLS(26, 1) CALIB8_W(17, 16) CALIB8_W(18, 32)        \
  CALIB8_NOW_2(16, 0, 1, 8, 9) CALIB8_W(19, 48) CALIB8_NOW_2(17, 2, 3, 10, 11)                     \
  "add %[weights], %[weights], %[stride]\n\t" CALIB8_NOW_2(18, 4, 5, 12, 13)                       \
  CALIB8_NOW_2(19, 6, 7, 14, 15)
#define CALIB8_TWO_2                                                                               \
  CALIB8_W(16, 0) CALIB8_CELLS(24, 0) CALIB8_CELLS(26, 1) CALIB8_N(20, 0) CALIB8_CELLS(25, 0)      \
  CALIB8_CELLS(27, 1) CALIB8_W(17, 16) CALIB8_BOTH_2(16, 20, 0, 1, 8, 9)                           \
  CALIB8_N(21, 16) CALIB8_W(18, 32) CALIB8_BOTH_2(17, 21, 2, 3, 10, 11)                            \
  CALIB8_N(22, 32) CALIB8_W(19, 48) CALIB8_BOTH_2(18, 22, 4, 5, 12, 13)                            \
  CALIB8_N(23, 48)                                                                                 \
  "add %[weights], %[weights], %[stride], lsl #1\n\tadd %[next], %[next], %[stride], lsl #1\n\t"   \
  CALIB8_BOTH_2(19, 23, 6, 7, 14, 15)
// clang-format on
#define CALIB8_CELLS(to, row) "ld1r {v" #to ".4s}, [%[row" #row "]], #4\n\t"
#define CALIB8_ZERO(a, b, c, d) \
  "movi v" #a ".4s, #0\n\tmovi v" #b ".4s, #0\n\tmovi v" #c ".4s, #0\n\tmovi v" #d ".4s, #0\n\t"
#define CALIB8_ZERO_1 CALIB8_ZERO(0, 1, 2, 3) CALIB8_ZERO(4, 5, 6, 7)
#define CALIB8_ZERO_2 CALIB8_ZERO_1 CALIB8_ZERO(8, 9, 10, 11) CALIB8_ZERO(12, 13, 14, 15)
#define CALIB8_STORE(a, b, c, d, place)                                                                     \
  "ldp q16, q17, [%[acc], #" #place "]\n\taddp v" #a ".4s, v" #a ".4s, v" #b ".4s\n\taddp v" #c ".4s, v" #c \
  ".4s, v" #d ".4s\n\tadd v16.4s, v16.4s, v" #a ".4s\n\tadd v17.4s, v17.4s, v" #c                           \
  ".4s\n\tstp q16, q17, [%[acc], #" #place "]\n\t"
#define CALIB8_STORE_1 CALIB8_STORE(0, 1, 2, 3, 0) CALIB8_STORE(4, 5, 6, 7, 32)
#define CALIB8_STORE_2 CALIB8_STORE_1 CALIB8_STORE(8, 9, 10, 11, 64) CALIB8_STORE(12, 13, 14, 15, 96)
#define CALIB8_TILE_LOOP(rows)                                                                              \
  asm volatile(CALIB8_ZERO_##rows                                                                           \
               "cbz %[pairs], 2f\n\t"                                                                       \
               "1:\n\t" CALIB8_TWO_##rows                                                                   \
               "subs %[pairs], %[pairs], #1\n\tb.ne 1b\n\t"                                                 \
               "2:\n\tcbz %[singles], 4f\n\t"                                                               \
               "3:\n\t" CALIB8_ONE_##rows                                                                   \
               "subs %[singles], %[singles], #1\n\tb.ne 3b\n\t"                                             \
               "4:\n\t" CALIB8_STORE_##rows                                                                 \
               : [weights] "+r"(weights), [next] "+r"(next), [pairs] "+r"(pairs), [singles] "+r"(singles),  \
                 [row0] "+r"(row[0]), [row1] "+r"(row[1])                                                   \
               : [acc] "r"(acc), [stride] "r"(section.stride)                                               \
               : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",  \
                 "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", \
                 "v25", "v26", "v27", "v28", "v29", "v30", "v31")

#include "conv_set_neon.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

struct Neon : SignedCells {
  struct Section {
    const int8_t* weights;
    int64_t stride;
    bool tame;  // no weight is −128
  };
  static constexpr int64_t kSection = INT64_MAX;

  static Section section(const int8_t* weights, int64_t stride, int64_t quads, uint8_t*) {
    int8x16_t least = vdupq_n_s8(0);
    for (int64_t quad = 0; quad < quads; ++quad) {
      const int8_t* row = weights + quad * stride;
      least = vminq_s8(least, vminq_s8(vminq_s8(vld1q_s8(row), vld1q_s8(row + 16)),
                                       vminq_s8(vld1q_s8(row + 32), vld1q_s8(row + 48))));
    }
    return {weights, stride, vminvq_s8(least) != INT8_MIN};
  }

  // Two rows at a time.
  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    if constexpr (rows > 2) {
      multiply<2>(cells, section, quads, acc);
      multiply<rows - 2>(cells + 2, section, quads, acc + 2 * kStrip);
    } else {
      tile<rows>(cells, section, quads, acc);
    }
  }
  template <int rows>
  [[gnu::noinline]] static void tile(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    const Cell* row[2] = {cells[0], cells[rows - 1]};
    const int8_t *weights = section.weights, *next = weights + section.stride;
    int64_t pairs = section.tame ? quads / 2 : 0, singles = quads - 2 * pairs;
    if constexpr (rows == 1) CALIB8_TILE_LOOP(1);
    if constexpr (rows == 2) CALIB8_TILE_LOOP(2);
  }

  template <int width>
  static void stream(const uint8_t* input, const int8_t* weights, int64_t quads, int32_t* acc) {
    constexpr int64_t kQuads = 256, kStride = 64 * width;
    Cell cells[4 * kQuads + 16];
    for (int64_t begin = 0; begin < quads; begin += kQuads) {
      const int64_t count = quads - begin < kQuads ? quads - begin : kQuads;
      take(input + 4 * begin, 4 * count, cells);
      const Cell* row = cells;
      for (int strip = 0; strip < width; ++strip) {
        const Section all{weights + begin * kStride + 64 * strip, kStride, false};
        tile<1>(&row, all, count, acc + kStrip * strip);
      }
    }
  }
};

}  // namespace

void conv_neon(const Conv& step, const Memory& memory, Part part) { ConvTiles<Neon>(step, memory).run(part); }

void wide_conv_neon(const WideConv& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return ConvTiles<Neon>(step.layer, memory, step.output_size).run(part);
  ConvTiles<Neon, int16_t>(step.layer, memory, step.output_size).run(part);
}

}  // namespace calib8::engine
