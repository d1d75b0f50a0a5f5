// Depthwise 5×5 windows with 16-bit codes and steps of one column, for sets with 16 registers: the columns of
// a run of pixels are interleaved once, into memory.
//
//   kinds of pairs of column c:   rows 0 and 1, rows 2 and 3, row 4 of columns c − 1 and c
//
// Sums of a tile of pixels grow a kind at a time: five weights lie in registers, and a pair that is loaded is
// multiplied with all of them. Everything has internal linkage.
#pragma once

#include "lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int kFiveKinds = 3, kFiveTile = 8;
constexpr int64_t kFiveRun = kWideColumns + 4;  // columns of a run

// One half of the sums of kLanes · 2 channels.
struct FiveHalf {
  const Words* pairs;    // [kFiveKinds][kFiveRun]
  const Words* weights;  // columns 0 … 4 of the kinds 0 and 1 in turns, then columns 0 and 1, 2 and 3, 4
  Ints bias;
  int32_t* sums;
  int64_t next;  // numbers from one pixel to the next
};

// Sums of `count` pixels from column `first` on.
template <int count>
[[gnu::always_inline]] inline void five_tile(const FiveHalf& half, int64_t first) {
  Ints acc[count];
#pragma GCC unroll 8
  for (int x = 0; x < count; ++x) acc[x] = half.bias;
#pragma GCC unroll 2
  for (int kind = 0; kind < 2; ++kind) {
    const Words* pairs = half.pairs + kind * kFiveRun + first;
    Words weights[5];
#pragma GCC unroll 5
    for (int c = 0; c < 5; ++c) weights[c] = half.weights[2 * c + kind];
#pragma GCC unroll 12
    for (int column = 0; column < count + 4; ++column) {
      const Words codes = pairs[column];
#pragma GCC unroll 5
      for (int c = 0; c < 5; ++c) {
        const int x = column - c;
        if (x >= 0 && x < count) acc[x] = V::add_products16(acc[x], codes, weights[c]);
      }
    }
  }
  const Words* lasts = half.pairs + 2 * kFiveRun + first;
  const Words one = half.weights[10], two = half.weights[11], three = half.weights[12];
#pragma GCC unroll 12
  for (int column = 1; column < count + 4; ++column) {
    const Words codes = lasts[column];
    if (column <= count) acc[column - 1] = V::add_products16(acc[column - 1], codes, one);
    if (column >= 3 && column - 3 < count) acc[column - 3] = V::add_products16(acc[column - 3], codes, two);
    if (column >= 4) acc[column - 4] = V::add_products16(acc[column - 4], codes, three);
  }
#pragma GCC unroll 8
  for (int x = 0; x < count; ++x) V::store(half.sums + (first + x) * half.next, acc[x]);
}

// Sums of a run of at least four pixels; tiles at its end overlap.
[[gnu::noinline]] void five_sums(const FiveHalf& half, int64_t count) {
  int64_t done = 0;
  for (; done + kFiveTile <= count; done += kFiveTile) five_tile<kFiveTile>(half, done);
  const int64_t left = count - done;
  if (left > 4 && count >= kFiveTile) return five_tile<kFiveTile>(half, count - kFiveTile);
  if (left > 4) five_tile<4>(half, done);
  if (left > 0) five_tile<4>(half, count - 4);
}

// The pairs of all columns of a run, [halves][kFiveKinds][kFiveRun].
template <class Item, class Load>
[[gnu::noinline]] void interleave_five(const Item* input, const int64_t* rows, int64_t next, int64_t columns,
                                       const Load& load, Words* pairs) {
  constexpr int64_t kHigh = kFiveKinds * kFiveRun;
  Words before = V::zero();
  for (int64_t c = 0; c < columns; ++c, input += next, ++pairs) {
    const auto put = [&](int kind, Words a, Words b) __attribute__((always_inline)) {
      pairs[kind * kFiveRun] = V::low16(a, b), pairs[kHigh + kind * kFiveRun] = V::high16(a, b);
    };
    put(0, load(input + rows[0]), load(input + rows[1]));
    put(1, load(input + rows[2]), load(input + rows[3]));
    const Words last = load(input + rows[4]);
    put(2, before, last);
    before = last;
  }
}

}  // namespace
}  // namespace calib8::engine
