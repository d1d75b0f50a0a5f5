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

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// kWords codes as words.
inline Words words_from(const int16_t* codes) { return V::load(codes); }
inline Words words_from(const uint8_t* codes) { return V::numbers16(codes); }

// A block of up to 2 · kWords channels, counted in vectors of words.
template <class Item, int vectors>
class WideBlock {
  static constexpr int64_t kWords = SumsEnd::kWords;
  struct Pair {
    Words low, high;
  };

 public:
  WideBlock(const WideDepthwise& step, const Memory& memory, int64_t channel)
      : step_(step.layer),
        taps_(memory.constant<int64_t>(step_.tap_offsets)),
        sums_(reinterpret_cast<int32_t*>(memory.scratch)),
        weights_(reinterpret_cast<Pair*>(memory.scratch + kWideColumns * kWideBlock * 4)),
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
  }

  // Sums of `count` pixels of a row, in the order of halves.
  void run(const Item* input, int64_t count) const {
    if (step_.kernel_columns == 3 && step_.kernel_rows == 3 && step_.layers == 1 && step_.column_step == 1 &&
        step_.column_dilation == 1) {
      return three(input, count);
    }
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

  // 3×3 without strides along a row: a column of the window, interleaved once, serves three pixels. Rows 0
  // and 1 are pairs, and so are the codes of row 2 with those of the column before:
  //
  //   Σ over columns x + i of rows 0, 1 + (x − 1, x) of row 2 · (0, w) + (x + 1, x + 2) of row 2 · (w, w)
  void three(const Item* input, int64_t count) const {
    for (int v = 0; v < vectors; ++v) three(input + v * kWords, v, count);
  }
  void three(const Item* input, int v, int64_t count) const {
    const int64_t next = step_.input.column_stride;
    const int64_t top = taps_[0], middle = taps_[3], bottom = taps_[6];
    const Pair weights[5] = {column_weights(v, 0, 3), column_weights(v, 1, 4), column_weights(v, 2, 5),
                             column_weights(v, -1, 6), column_weights(v, 7, 8)};
    Words before = V::zero();
    const auto load = [&](int64_t column, Pair& upper, Pair& lower) __attribute__((always_inline)) {
      const Item* place = input + column * next;
      upper = interleaved(words_from(place + top), words_from(place + middle));
      const Words last = words_from(place + bottom);
      lower = interleaved(before, last);
      before = last;
    };
    Pair upper[3], lower[3];
    load(0, upper[0], lower[0]);
    load(1, upper[1], lower[1]);
    for (int64_t pixel = 0; pixel < count; ++pixel) {
      load(pixel + 2, upper[2], lower[2]);
      Pair acc = bias_[v];
      for (int x = 0; x < 3; ++x) add(acc, upper[x], weights[x]);
      add(acc, lower[0], weights[3]);
      add(acc, lower[2], weights[4]);
      int32_t* to = sums_ + (pixel * vectors + v) * kWords;
      V::store(to, acc.low);
      V::store(to + kLanes, acc.high);
      upper[0] = upper[1], upper[1] = upper[2], lower[0] = lower[1], lower[1] = lower[2];
    }
  }
  // Weights of two taps, from the pairs in which they lie; −1 for none.
  Pair column_weights(int v, int first, int second) const {
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
};

// All rows of a share for the block of `count` channels that begins at `channel`.
template <class Item, int vectors>
void wide_block(const WideDepthwise& step, const Memory& memory, SumsEnd& end, int64_t channel, int64_t count,
                Range rows) {
  const Depthwise& layer = step.layer;
  const View &in = layer.input, &out = layer.output;
  const WideBlock<Item, vectors> block(step, memory, channel);
  end.begin(channel, vectors * SumsEnd::kWords, count);
  int64_t offsets[kWideColumns];
  for (int64_t i = 0; i < kWideColumns; ++i) offsets[i] = i * out.column_stride;
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const int64_t image = row / out.rows, line = row % out.rows;
    for (int64_t column = 0; column < out.columns; column += kWideColumns) {
      const int64_t some = std::min(kWideColumns, out.columns - column);
      block.run(
          memory.data<Item>(in) + channel + in.at(image, line * layer.row_step, column * layer.column_step),
          some);
      uint8_t* output =
          memory.data<uint8_t>(out) + (out.at(image, line, column) + channel) * step.output_size;
      end.rows({block.sums(), vectors * SumsEnd::kWords, some, output, offsets});
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
