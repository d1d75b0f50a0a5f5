// Depthwise layers with 3×3 kernels and 16-bit codes on AVX-512: 32 channels of a row, whose sums become
// codes in registers.
//
// A column of the image is interleaved once: rows 0 and 1 as pairs, row 2 with that of the column before.
// Both halves of the sums grow together, and what packs them puts their channels in order. Everything has
// internal linkage.
#pragma once

#include "sums_end.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The weights of 16 channels: columns 0, 1, 2 of rows 0 and 1, columns 0 and 1 of row 2, column 2 of it in
// the upper words.
constexpr int kThreePairs = 5;

// A row of windows at 32 channels.
template <class Item>
struct ThreeRow {
  const Item* input;      // of the first window
  int64_t rows[3], next;  // items to the rows of a window, from one column to the next
  const Words *low_pairs, *high_pairs;
  Ints low_bias, high_bias;
  int64_t count;
  uint8_t* output;
  int64_t output_next, channels;  // bytes from one pixel to the next
};

// Ends of sums in floating point, or single rounding in fixed point, by small factors.
template <bool fixed, bool wide>
class ThreeEnd {
 public:
  ThreeEnd(const Rescale& rule, const SumsEnd& end, int64_t at, int64_t channels)
      : factor_(end.factors() + at),
        scaled_(end.scaled() + at),
        zero_point_(wide ? all_int(rule.zero_point)
                         : V::set16(static_cast<int32_t>(rule.zero_point << fixed))),
        low_(wide ? V::set16(static_cast<int32_t>(rule.low)) : V::set8(static_cast<int32_t>(rule.low))),
        high_(wide ? V::set16(static_cast<int32_t>(rule.high)) : V::set8(static_cast<int32_t>(rule.high))),
        stored_(channels >= 32 ? ~0U : (1U << channels) - 1) {}

  [[gnu::always_inline]] void put(uint8_t* to, Ints low, Ints high) const {
    Words words = V::pack32(number(low, 0), number(high, kLanes));
    if constexpr (wide) {
      words = V::smaller16(V::larger16(words, low_), high_);
      _mm512_mask_storeu_epi16(to, stored_, words);
    } else {
      words = V::add16(words, zero_point_);
      if constexpr (fixed) words = V::right16<1>(words);
      const Bytes codes = V::clamp8(V::words_in_order(V::pack16(words, words)), low_, high_);
      _mm256_mask_storeu_epi8(to, stored_, V::half(codes, 0));
    }
  }

 private:
  [[gnu::always_inline]] Ints number(Ints acc, int64_t at) const {
    Ints steps;
    if constexpr (fixed) {
      steps = Halves()(acc, scaled_ + at);
      if constexpr (wide) steps = V::right<1>(steps);
    } else {
      steps = V::rounded(V::multiply(V::floats(acc), V::bits(V::load(factor_ + at))));
    }
    return wide ? V::add32(steps, zero_point_) : steps;
  }

  const int32_t* factor_;
  const double* scaled_;
  Ints zero_point_, low_, high_;
  __mmask32 stored_;
};

// What interleaves the columns of a row, one after the other.
template <class Item>
struct ThreeColumns {
  const Item* input;
  const ThreeRow<Item>& row;
  Words before = V::zero();  // row 2 of the last column

  struct Column {
    Words low, high, low_last, high_last;
  };
  [[gnu::always_inline]] Column take() {
    const Words a = words_of(input + row.rows[0]), b = words_of(input + row.rows[1]);
    const Words c = words_of(input + row.rows[2]);
    const Column column{V::low16(a, b), V::high16(a, b), V::low16(before, c), V::high16(before, c)};
    before = c, input += row.next;
    return column;
  }
  [[gnu::always_inline]] static Words words_of(const int16_t* codes) { return V::load(codes); }
  [[gnu::always_inline]] static Words words_of(const uint8_t* codes) { return V::numbers16(codes); }
};

template <class Item, int step, class End>
[[gnu::noinline]] void three_row(const ThreeRow<Item>& row, const End& origin) {
  const End end = origin;
  Words low[kThreePairs], high[kThreePairs];
  for (int p = 0; p < kThreePairs; ++p) low[p] = row.low_pairs[p], high[p] = row.high_pairs[p];
  const Ints low_bias = row.low_bias, high_bias = row.high_bias;
  ThreeColumns<Item> columns{row.input, row};
  auto first = columns.take(), second = first;
  if constexpr (step == 1) second = columns.take();
  uint8_t* output = row.output;
  for (int64_t left = row.count; left > 0; --left, output += row.output_next) {
    if constexpr (step == 2) second = columns.take();
    const auto third = columns.take();
    Ints low_sum = V::add_products16(low_bias, second.low_last, low[3]);
    Ints high_sum = V::add_products16(high_bias, second.high_last, high[3]);
    low_sum = V::add_products16(low_sum, first.low, low[0]);
    high_sum = V::add_products16(high_sum, first.high, high[0]);
    low_sum = V::add_products16(low_sum, second.low, low[1]);
    high_sum = V::add_products16(high_sum, second.high, high[1]);
    low_sum = V::add_products16(low_sum, third.low, low[2]);
    high_sum = V::add_products16(high_sum, third.high, high[2]);
    low_sum = V::add_products16(low_sum, third.low_last, low[4]);
    high_sum = V::add_products16(high_sum, third.high_last, high[4]);
    end.put(output, low_sum, high_sum);
    first = step == 1 ? second : third;
    if constexpr (step == 1) second = third;
  }
}

// The row, with the end of `end` for the channels from entry `at` of its block on.
template <class Item, int step>
void three_row_of(const ThreeRow<Item>& row, const Rescale& rule, const SumsEnd& end, int64_t at, bool wide) {
  const bool fixed = end.way() == SumsWay::kSmallSingle;
  const auto run = [&](auto is_fixed, auto is_wide) {
    using End = ThreeEnd<decltype(is_fixed)::value, decltype(is_wide)::value>;
    three_row<Item, step>(row, End(rule, end, at, row.channels));
  };
  if (fixed) return wide ? run(std::true_type{}, std::true_type{}) : run(std::true_type{}, std::false_type{});
  wide ? run(std::false_type{}, std::true_type{}) : run(std::false_type{}, std::false_type{});
}

}  // namespace
}  // namespace calib8::engine
