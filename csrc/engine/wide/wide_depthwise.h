// Depthwise convolution with 16-bit codes: products of pairs of taps, whose codes are interleaved as words.
//
//   acc[c] += x[tap 2p][c] · w[2p][c] + x[tap 2p + 1][c] · w[2p + 1][c]      vpmaddwd or vpdpwssd
//
// For blocks of channels, rows, runs of pixels: sums of the run in the first cache, then their end.
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>

#include "../reference/reference.h"
#include "sums_end.h"
#include "wide_five.h"
#if defined(__AVX512BW__)
#include "wide_three_avx512.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// kWords codes as words.
inline Words words_from(const int16_t* codes) { return V::load(codes); }
inline Words words_from(const uint8_t* codes) { return V::numbers16(codes); }

// A block of up to 2 · kWords channels, counted in vectors of words.
template <class Item, int vectors>
class WideBlock {
  static constexpr int64_t kWords = SumsEnd::kWords;
  static constexpr int kSquares = 5;
  struct Pair {
    Words low, high;
  };

 public:
  WideBlock(const WideDepthwise& step, const Memory& memory, int64_t channel)
      : step_(step.layer),
        taps_(memory.constant<int64_t>(step_.tap_offsets)),
        sums_(reinterpret_cast<int32_t*>(memory.scratch)),
        weights_(reinterpret_cast<Pair*>(memory.scratch + kWideSums + kWidePairs)),
        pairs_((step_.kernel_rows * step_.kernel_columns * step_.layers + 1) / 2) {
    const int8_t* weights = memory.constant<int8_t>(step_.weights) + channel;
    const int32_t* bias = memory.constant<int32_t>(step_.bias) + channel;
    for (int v = 0; v < vectors; ++v) {
      for (int64_t pair = 0; pair < pairs_; ++pair) {
        const int8_t* place = weights + 2 * pair * step_.padded_outputs + v * kWords;
        weights_[pair * vectors + v] = interleaved(widened(place), widened(place + step_.padded_outputs));
      }
      alignas(64) int32_t ordered[2][kLanes];
      for (int64_t c = 0; c < kWords; ++c) {
        ordered[c / 4 % 2][c / 8 * 4 + c % 4] = bias[v * kWords + c];
      }
      bias_[v] = {V::load(ordered[0]), V::load(ordered[1])};
    }
    const bool plain = step_.layers == 1 && step_.column_dilation == 1;
    const int64_t size = step_.kernel_rows == step_.kernel_columns && plain ? step_.kernel_rows : 0;
    const bool three = size == 3 && step_.column_step <= 2, five = size == 5 && step_.column_step == 1;
    if (!three && !five) return;
    window_ = static_cast<int>(size);
    for (int v = 0; v < vectors; ++v) order_square(v, window_);
  }

  // Sums of `count` pixels of a row, in the order of halves.
  void run(const Item* input, int64_t count) const {
    if (window_ == 3) return step_.column_step == 1 ? square<3, 1>(input, count) : square<3, 2>(input, count);
    if (window_ == 5 && kWidth == 64) return square<5, 1>(input, count);
    if (window_ == 5 && count >= 4) return five(input, count);
    const int64_t next = step_.column_step * step_.input.column_stride;
    for (int64_t pixel = 0; pixel < count; ++pixel, input += next) {
      Pair acc[vectors];
      for (int v = 0; v < vectors; ++v) acc[v] = bias_[v];
      for (int64_t pair = 0; pair < pairs_; ++pair) {
        const Item *one = input + taps_[2 * pair], *two = input + taps_[2 * pair + 1];
        for (int v = 0; v < vectors; ++v) {
          const Pair codes = interleaved(words_from(one + v * kWords), words_from(two + v * kWords));
          add(acc[v], codes, weights_[pair * vectors + v]);
        }
      }
      put(pixel, acc);
    }
  }
  const int32_t* sums() const { return sums_; }

#if defined(__AVX512BW__)
  // Codes of all pixels of a row, where its sums end in registers.
  bool ends_rows(const SumsEnd& end) const {
    return window_ == 3 && (end.way() == SumsWay::kSmall || end.way() == SumsWay::kSmallSingle);
  }
  void end_row(const Item* input, uint8_t* output, int64_t output_size, int64_t channels,
               const SumsEnd& end) const {
    for (int v = 0; v < vectors; ++v) {
      const ThreeRow<Item> row{input + v * kWords,
                               {taps_[0], taps_[3], taps_[6]},
                               step_.input.column_stride,
                               square_[v][0],
                               square_[v][1],
                               bias_[v].low,
                               bias_[v].high,
                               step_.output.columns,
                               output + v * kWords * output_size,
                               step_.output.column_stride * output_size,
                               channels - v * kWords};
      const auto run = step_.column_step == 1 ? three_row_of<Item, 1> : three_row_of<Item, 2>;
      run(row, step_.rescale, end, v * kWords, output_size == 2);
    }
  }
#endif

 private:
  static Words widened(const int8_t* weights) {
    alignas(64) int16_t words[kWords];
    for (int64_t c = 0; c < kWords; ++c) words[c] = weights[c];
    return V::load(words);
  }
  [[gnu::always_inline]] static Pair interleaved(Words a, Words b) {
    return {V::low16(a, b), V::high16(a, b)};
  }
  [[gnu::always_inline]] static void add(Pair& acc, const Pair& codes, const Pair& weights) {
    acc.low = V::add_products16(acc.low, codes.low, weights.low);
    acc.high = V::add_products16(acc.high, codes.high, weights.high);
  }
  [[gnu::always_inline]] void put(int64_t pixel, const Pair (&acc)[vectors]) const {
    int32_t* to = sums_ + pixel * vectors * kWords;
    for (int v = 0; v < vectors; ++v) {
      V::store(to + v * kWords, acc[v].low);
      V::store(to + v * kWords + kLanes, acc[v].high);
    }
  }

  // 5×5 where registers are too few for the codes of a window.
  void five(const Item* input, int64_t count) const {
    auto* pairs = reinterpret_cast<Words*>(reinterpret_cast<uint8_t*>(sums_) + kWideSums);
    const int64_t rows[5] = {taps_[0], taps_[5], taps_[10], taps_[15], taps_[20]};
    for (int v = 0; v < vectors; ++v) {
      interleave_five(
          input + v * kWords, rows, step_.input.column_stride, count + 4,
          [](const Item* codes) { return words_from(codes); }, pairs);
      for (int high = 0; high < 2; ++high) {
        const Ints bias = high == 0 ? bias_[v].low : bias_[v].high;
        int32_t* sums = sums_ + v * kWords + high * kLanes;
        five_sums({pairs + high * kFiveKinds * kFiveRun, square_[v][high], bias, sums, vectors * kWords},
                  count);
      }
    }
  }

  // Square windows, `step` columns apart, one half of the sums at a time. A column of the image is
  // interleaved once, rows 0 and 1, 2 and 3 as pairs; of the last row the codes of a column are paired with
  // those of the column before:
  //
  //   Σ over columns x + c, pairs of rows + Σ over c = 1, 3 … of (x + c − 1, x + c) · (w, w)
  //                                       + (x + size − 2, x + size − 1) · (0, w)
  template <int size, int step>
  void square(const Item* input, int64_t count) const {
    for (int v = 0; v < vectors; ++v) {
      square_half<size, step, false>(input + v * kWords, v, count);
      square_half<size, step, true>(input + v * kWords, v, count);
    }
  }
  template <int size, int step, bool high>
  void square_half(const Item* input, int v, int64_t count) const {
    constexpr int kPairs = size / 2;
    Words weights[size][kPairs], last[kPairs + 1];
    const Words* place = square_[v][high ? 1 : 0];
    for (int c = 0; c < size; ++c) {
      for (int p = 0; p < kPairs; ++p) weights[c][p] = *place++;
    }
    for (int p = 0; p <= kPairs; ++p) last[p] = *place++;
    int64_t rows[size];
    for (int r = 0; r < size; ++r) rows[r] = taps_[r * size];
    const int64_t next = step_.input.column_stride;
    const Ints bias = high ? bias_[v].high : bias_[v].low;
    Words pairs[size][kPairs], lasts[size], before = V::zero();
    const auto load = [&](int c) __attribute__((always_inline)) {
#pragma GCC unroll 2
      for (int p = 0; p < kPairs; ++p) {
        pairs[c][p] = one_half<high>(words_from(input + rows[2 * p]), words_from(input + rows[2 * p + 1]));
      }
      const Words code = words_from(input + rows[size - 1]);
      lasts[c] = one_half<high>(before, code);
      before = code;
      input += next;
    };
#pragma GCC unroll 4
    for (int c = 0; c < size - step; ++c) load(c);
    int32_t* to = sums_ + v * kWords + (high ? kLanes : 0);
    for (int64_t pixel = 0; pixel < count; ++pixel, to += vectors * kWords) {
#pragma GCC unroll 2
      for (int c = size - step; c < size; ++c) load(c);
      Ints acc = V::add_products16(bias, lasts[size - 1], last[kPairs]);
#pragma GCC unroll 5
      for (int c = 0; c < size; ++c) {
#pragma GCC unroll 2
        for (int p = 0; p < kPairs; ++p) acc = V::add_products16(acc, pairs[c][p], weights[c][p]);
        if (c % 2 == 1) acc = V::add_products16(acc, lasts[c], last[c / 2]);
      }
      V::store(to, acc);
#pragma GCC unroll 4
      for (int c = 0; c + step < size; ++c) {
#pragma GCC unroll 2
        for (int p = 0; p < kPairs; ++p) pairs[c][p] = pairs[c + step][p];
        lasts[c] = lasts[c + step];
      }
    }
  }
  // The weights of a window in the order in which square_half takes them.
  void order_square(int v, int size) {
    int place = 0;
    const auto put = [&](int first, int second) {
      const Pair pair = taps_of(v, first, second);
      square_[v][0][place] = pair.low, square_[v][1][place++] = pair.high;
    };
    for (int c = 0; c < size; ++c) {
      for (int r = 0; r + 1 < size; r += 2) put(r * size + c, (r + 1) * size + c);
    }
    for (int c = 1; c < size; c += 2) put((size - 1) * size + c - 1, (size - 1) * size + c);
    put(-1, size * size - 1);
  }
  template <bool high>
  [[gnu::always_inline]] static Words one_half(Words a, Words b) {
    return high ? V::high16(a, b) : V::low16(a, b);
  }
  // Weights of two taps, from the pairs in which they lie; −1 for none.
  Pair taps_of(int v, int first, int second) const {
    // in the upper half of every number
    const auto words = [&](int tap) {
      if (tap < 0) return Pair{V::zero(), V::zero()};
      const Pair& pair = weights_[tap / 2 * vectors + v];
      return tap % 2 != 0 ? pair : Pair{V::left(pair.low, V::all(16)), V::left(pair.high, V::all(16))};
    };
    const auto joined = [&](Ints a, Ints b) {
      const Ints lower = V::and_bits(V::right(a, V::all(16)), V::all(0xFFFF));
      return V::xor_bits(lower, V::and_bits(b, V::all(-0x10000)));
    };
    const Pair one = words(first), two = words(second);
    return {joined(one.low, two.low), joined(one.high, two.high)};
  }

  const Depthwise& step_;
  const int64_t* taps_;
  int32_t* sums_;  // [pixels][vectors · kWords]
  Pair* weights_;  // [pairs][vectors]
  int64_t pairs_;
  Pair bias_[vectors];
  int window_ = 0;  // 3 or 5: rows and columns of a window that square_ has the weights of
  Words square_[vectors][2][kSquares * (kSquares / 2) + kSquares / 2 + 1];
};

// All rows of a share for the block of `count` channels that begins at `channel`.
template <class Item, int vectors>
void wide_block(const WideDepthwise& step, const Memory& memory, SumsEnd& end, int64_t channel, int64_t count,
                Range rows) {
  const Depthwise& layer = step.layer;
  const View &in = layer.input, &out = layer.output;
  const WideBlock<Item, vectors> block(step, memory, channel);
  constexpr int64_t kEntries = vectors * SumsEnd::kWords;
  const int32_t* bias = memory.constant<int32_t>(layer.bias) + channel;
  end.begin(channel, kEntries, count, largest_sum(layer.taps, step.input_size, bias, kEntries));
  int64_t offsets[kWideColumns];
  for (int64_t i = 0; i < kWideColumns; ++i) offsets[i] = i * out.column_stride;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t image = row / out.rows, line = row % out.rows;
    const Item* input = memory.data<Item>(in) + channel + in.at(image, line * layer.row_step, 0);
    uint8_t* output = memory.data<uint8_t>(out) + (out.at(image, line, 0) + channel) * step.output_size;
#if defined(__AVX512BW__)
    if (block.ends_rows(end)) {
      block.end_row(input, output, step.output_size, count, end);
      continue;
    }
#endif
    for (int64_t column = 0; column < out.columns; column += kWideColumns) {
      const int64_t some = std::min(kWideColumns, out.columns - column);
      block.run(input + column * layer.column_step * in.column_stride, some);
      end.rows(
          {block.sums(), kEntries, some, output + column * out.column_stride * step.output_size, offsets});
    }
  }
}

// Rows whose input stays in the second cache for all blocks.
constexpr int64_t kWideBandBytes = 1 << 18;

template <class Item>
void wide_depthwise_of(const WideDepthwise& step, const Memory& memory, Part part) {
  const Depthwise& layer = step.layer;
  const int64_t channels = layer.output.channels;
  SumsEnd end(layer.rescale, layer.activation, step.output_size, memory, SumsEnd::Order::kHalves);
  const Range mine = share(part, layer.output.images * layer.output.rows);
  const int64_t line = layer.row_step * layer.input.row_stride * step.input_size;
  const int64_t band = std::max<int64_t>(kWideBandBytes / std::max<int64_t>(line, 1), 2);
  for (int64_t row = mine.begin; row < mine.end; row += band) {
    const Range rows{row, std::min(row + band, mine.end)};
    for (int64_t channel = 0; channel < channels; channel += 2 * SumsEnd::kWords) {
      const int64_t count = std::min(channels - channel, 2 * SumsEnd::kWords);
      if (count > SumsEnd::kWords) {
        wide_block<Item, 2>(step, memory, end, channel, count, rows);
      } else {
        wide_block<Item, 1>(step, memory, end, channel, count, rows);
      }
    }
  }
}

void wide_depthwise(const WideDepthwise& step, const Memory& memory, Part part) {
  if (step.layer.multiplier != 1) return reference_wide_depthwise(step, memory, part);
  step.input_size == 1 ? wide_depthwise_of<uint8_t>(step, memory, part)
                       : wide_depthwise_of<int16_t>(step, memory, part);
}

}  // namespace
}  // namespace calib8::engine
