// Conv for neondot: four products of signed bytes at a time, added in int32 (sdot).
#include <arm_neon.h>

// The loop of a tile as assembly, so that no compiler spills its sums: v0 … v23 are the sums, four vectors
// per row, v24 … v29 cells of the rows, v30 and v31 the weights of four channels in turns. Four quads at a
// time, each a lane of the cells, then what is left one by one. Loads stand far before what needs them:
// processors that keep the order of a program would wait.
#define CALIB8_LOAD(row, a, b, c, d) \
  "ldp q" #a ", q" #b ", [%[acc], #64*" #row "]\n\tldp q" #c ", q" #d ", [%[acc], #64*" #row "+32]\n\t"
#define CALIB8_STORE(row, a, b, c, d) \
  "stp q" #a ", q" #b ", [%[acc], #64*" #row "]\n\tstp q" #c ", q" #d ", [%[acc], #64*" #row "+32]\n\t"
#define CALIB8_EACH_1(what) what(0, 0, 1, 2, 3)
#define CALIB8_EACH_2(what) CALIB8_EACH_1(what) what(1, 4, 5, 6, 7)
#define CALIB8_EACH_3(what) CALIB8_EACH_2(what) what(2, 8, 9, 10, 11)
#define CALIB8_EACH_4(what) CALIB8_EACH_3(what) what(3, 12, 13, 14, 15)
#define CALIB8_EACH_5(what) CALIB8_EACH_4(what) what(4, 16, 17, 18, 19)
#define CALIB8_EACH_6(what) CALIB8_EACH_5(what) what(5, 20, 21, 22, 23)
#define CALIB8_WEIGHTS(to, place) "ldr q" #to ", [%[weights], #" #place "]\n\t"
#define CALIB8_FOUR(row, cells) "ldr q" #cells ", [%[row" #row "]], #16\n\t"
#define CALIB8_ONE(row, cells) "ld1r {v" #cells ".4s}, [%[row" #row "]], #4\n\t"
#define CALIB8_CELLS_1(how) how(0, 24)
#define CALIB8_CELLS_2(how) CALIB8_CELLS_1(how) how(1, 25)
#define CALIB8_CELLS_3(how) CALIB8_CELLS_2(how) how(2, 26)
#define CALIB8_CELLS_4(how) CALIB8_CELLS_3(how) how(3, 27)
#define CALIB8_CELLS_5(how) CALIB8_CELLS_4(how) how(4, 28)
#define CALIB8_CELLS_6(how) CALIB8_CELLS_5(how) how(5, 29)
#define CALIB8_DOT(sum, weights, cells, lane) \
  "sdot v" #sum ".4s, v" #weights ".16b, v" #cells ".4b[" #lane "]\n\t"
// Four channels of every row, whose sums are a … f.
#define CALIB8_DOTS_1(w, lane, a, b, c, d, e, f) CALIB8_DOT(a, w, 24, lane)
#define CALIB8_DOTS_2(w, lane, a, b, c, d, e, f) \
  CALIB8_DOTS_1(w, lane, a, b, c, d, e, f) CALIB8_DOT(b, w, 25, lane)
#define CALIB8_DOTS_3(w, lane, a, b, c, d, e, f) \
  CALIB8_DOTS_2(w, lane, a, b, c, d, e, f) CALIB8_DOT(c, w, 26, lane)
#define CALIB8_DOTS_4(w, lane, a, b, c, d, e, f) \
  CALIB8_DOTS_3(w, lane, a, b, c, d, e, f) CALIB8_DOT(d, w, 27, lane)
#define CALIB8_DOTS_5(w, lane, a, b, c, d, e, f) \
  CALIB8_DOTS_4(w, lane, a, b, c, d, e, f) CALIB8_DOT(e, w, 28, lane)
#define CALIB8_DOTS_6(w, lane, a, b, c, d, e, f) \
  CALIB8_DOTS_5(w, lane, a, b, c, d, e, f) CALIB8_DOT(f, w, 29, lane)
// A quad, whose first weights are there; `next` loads those of the next one.
#define CALIB8_QUAD(rows, lane, next)                                                            \
  CALIB8_WEIGHTS(31, 16)                                                                         \
  CALIB8_DOTS_##rows(30, lane, 0, 4, 8, 12, 16, 20) CALIB8_WEIGHTS(30, 32)                       \
      CALIB8_DOTS_##rows(31, lane, 1, 5, 9, 13, 17, 21)                                          \
          CALIB8_WEIGHTS(31, 48) "add %[weights], %[weights], %[stride]\n\t" CALIB8_DOTS_##rows( \
              30, lane, 2, 6, 10, 14, 18, 22) next CALIB8_DOTS_##rows(31, lane, 3, 7, 11, 15, 19, 23)
#define CALIB8_FIRST CALIB8_WEIGHTS(30, 0)
#define CALIB8_TILE_LOOP(rows) \
  asm volatile(CALIB8_EACH_##rows(CALIB8_LOAD) "cbz %[fours], 2f\n\t"                                     \
               "1:\n\t" CALIB8_FIRST CALIB8_CELLS_##rows(CALIB8_FOUR) CALIB8_QUAD(rows, 0, CALIB8_FIRST)  \
                   CALIB8_QUAD(rows, 1, CALIB8_FIRST) CALIB8_QUAD(rows, 2, CALIB8_FIRST)                  \
                       CALIB8_QUAD(rows, 3, "") "subs %[fours], %[fours], #1\n\tb.ne 1b\n\t"              \
               "2:\n\tcbz %[ones], 4f\n\t"                                                                \
               "3:\n\t" CALIB8_FIRST CALIB8_CELLS_##rows(CALIB8_ONE) CALIB8_QUAD(rows, 0, "")             \
               "subs %[ones], %[ones], #1\n\tb.ne 3b\n\t"                                                 \
               "4:\n\t" CALIB8_EACH_##rows(CALIB8_STORE)                                                  \
               : [weights] "+r"(weights), [fours] "+r"(fours), [ones] "+r"(ones), [row0] "+r"(row[0]),    \
                 [row1] "+r"(row[1]), [row2] "+r"(row[2]), [row3] "+r"(row[3]), [row4] "+r"(row[4]),      \
                 [row5] "+r"(row[5])                                                                      \
               : [acc] "r"(acc), [stride] "r"(section.stride)                                             \
               : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",       \
                 "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",      \
                 "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31")

#include "conv_set_neon.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

// An activation is a signed byte; weights are read where they lie.
struct NeonDot : SignedCells {
  struct Section {
    const int8_t* weights;
    int64_t stride;
  };
  static constexpr int64_t kSection = INT64_MAX;

  static Section section(const int8_t* weights, int64_t stride, int64_t, uint8_t*) {
    return {weights, stride};
  }

  template <int rows>
  static void multiply(const Cell* const* cells, Section section, int64_t quads, int32_t* acc) {
    const Cell* row[6];
    for (int i = 0; i < 6; ++i) row[i] = cells[i < rows ? i : 0];
    const int8_t* weights = section.weights;
    int64_t fours = quads / 4, ones = quads % 4;
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
