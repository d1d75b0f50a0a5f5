// The inner loop of a tile of up to 6 rows × 16 channels in 32-byte vectors, as assembly.
//
// Compilers spill the 12 sums of such a loop to the stack when it is written with intrinsics (gcc 12 does,
// and loses half of the speed), so the registers are given by name:
//
//   ymm0 … ymm11  sums: two vectors per row        ymm12, ymm13  weights of 16 channels
//   ymm14         cells of a row, repeated         ymm15         products
//
// A set defines CALIB8_PRODUCTS(first, second): what is done with ymm12 … ymm14 and the two sums; and, where
// it keeps something of its own in a register, CALIB8_READY: what is done before the loop.
#pragma once

#include <cstdint>

#ifndef CALIB8_READY
#define CALIB8_READY ""
#endif

#define CALIB8_LOAD(offset, first, second)    \
  "vmovdqu " #offset "(%[acc]), %%ymm" #first \
  "\n\t"                                      \
  "vmovdqu " #offset "+32(%[acc]), %%ymm" #second "\n\t"
#define CALIB8_STORE(offset, first, second) \
  "vmovdqu %%ymm" #first ", " #offset       \
  "(%[acc])\n\t"                            \
  "vmovdqu %%ymm" #second ", " #offset "+32(%[acc])\n\t"
#define CALIB8_ROW(offset, row, first, second) \
  "vpbroadcastd " #offset "(%[row" #row "],%[place]), %%ymm14\n\t" CALIB8_PRODUCTS(first, second)
#define CALIB8_WEIGHTS(offset) \
  "vmovdqu " #offset           \
  "(%[weights]), %%ymm12\n\t"  \
  "vmovdqu " #offset "+32(%[weights]), %%ymm13\n\t"

#define CALIB8_EACH_1(what) what(0, 0, 1)
#define CALIB8_EACH_2(what) CALIB8_EACH_1(what) what(64, 2, 3)
#define CALIB8_EACH_3(what) CALIB8_EACH_2(what) what(128, 4, 5)
#define CALIB8_EACH_4(what) CALIB8_EACH_3(what) what(192, 6, 7)
#define CALIB8_EACH_5(what) CALIB8_EACH_4(what) what(256, 8, 9)
#define CALIB8_EACH_6(what) CALIB8_EACH_5(what) what(320, 10, 11)
#define CALIB8_ROWS_1(offset) CALIB8_ROW(offset, 0, 0, 1)
#define CALIB8_ROWS_2(offset) CALIB8_ROWS_1(offset) CALIB8_ROW(offset, 1, 2, 3)
#define CALIB8_ROWS_3(offset) CALIB8_ROWS_2(offset) CALIB8_ROW(offset, 2, 4, 5)
#define CALIB8_ROWS_4(offset) CALIB8_ROWS_3(offset) CALIB8_ROW(offset, 3, 6, 7)
#define CALIB8_ROWS_5(offset) CALIB8_ROWS_4(offset) CALIB8_ROW(offset, 4, 8, 9)
#define CALIB8_ROWS_6(offset) CALIB8_ROWS_5(offset) CALIB8_ROW(offset, 5, 10, 11)

// `round` is one round of the loop: it reads at %[place] of the rows and at %[weights], and moves both on.
// %[place] runs from −bytes to 0 and the rows point to their ends. One round at least.
#define CALIB8_TILE_LOOP(rows, round)                                                                     \
  asm volatile(CALIB8_READY CALIB8_EACH_##rows(CALIB8_LOAD) ".p2align 5\n1:\n\t" round                    \
                                                            "jnz 1b\n\t" CALIB8_EACH_##rows(CALIB8_STORE) \
               : [place] "+r"(place), [weights] "+r"(weights)                                             \
               : [acc] "r"(acc), [stride] "r"(stride), [row0] "r"(row[0]), [row1] "r"(row[1]),            \
                 [row2] "r"(row[2]), [row3] "r"(row[3]), [row4] "r"(row[4]), [row5] "r"(row[5])           \
               : "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",  \
                 "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15")

#define CALIB8_TILE(rows)                                          \
  do {                                                             \
    if constexpr (rows == 1) CALIB8_TILE_LOOP(1, CALIB8_ROUND(1)); \
    if constexpr (rows == 2) CALIB8_TILE_LOOP(2, CALIB8_ROUND(2)); \
    if constexpr (rows == 3) CALIB8_TILE_LOOP(3, CALIB8_ROUND(3)); \
    if constexpr (rows == 4) CALIB8_TILE_LOOP(4, CALIB8_ROUND(4)); \
    if constexpr (rows == 5) CALIB8_TILE_LOOP(5, CALIB8_ROUND(5)); \
    if constexpr (rows == 6) CALIB8_TILE_LOOP(6, CALIB8_ROUND(6)); \
  } while (false)

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Where the rows end; rows that a smaller tile lacks stand for nothing.
template <int rows, class Cell>
struct RowEnds {
  const Cell* ends[6];

  RowEnds(const Cell* const* cells, int64_t count) {
    for (int row = 0; row < 6; ++row) ends[row] = cells[row < rows ? row : 0] + count;
  }
  const Cell* operator[](int row) const { return ends[row]; }
};

}  // namespace
}  // namespace calib8::engine
