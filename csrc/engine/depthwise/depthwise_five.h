// Depthwise convolution with 5×5 kernels, stride 1 or 2, dilation 1: a strip of rows is interleaved once,
// then summed for one or two output rows.
//
// Two output rows read six rows. The rows 0 … 3 of a column make a quad ("upper"): weights (w0, w1, w2, w3)
// for the first output row, (0, w0, w1, w2) for the second. The rows 4 and 5 of two columns side by side make
// another
// ("lower"): weights (w4, 0, w4′, 0) and (w3, w4, w3′, w4′); a window takes every second of them.
#pragma once

#include "depthwise_lanes.h"
#include "depthwise_task.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <class L, Rounding kind, int step>
class FiveByFive {
  using Ints = typename L::Ints;
  using Quad = Quarters<Codes<L>>;
  static constexpr int kTile = 4;                               // outputs side by side
  static constexpr int64_t kColumns = kFiveColumns;             // that a strip reads at most
  static constexpr int64_t kStrip = (kColumns - 5) / step + 1;  // its outputs
  static_assert(sizeof(Quad) <= kQuadBytes, "more than its scratch memory");

 public:
  explicit FiveByFive(const Task& task)
      : task_(task),
        pixel_(task.step.input.column_stride),
        line_(task.step.input.row_stride),
        apart_(task.input_apart()),
        codes_of_(task.step, task.memory, task.channel),
        upper_(reinterpret_cast<Quad*>(task.memory.scratch)),
        lower_(upper_ + kColumns) {
    const uint8_t* taps = task.memory.constant<uint8_t>(task.step.weights) + task.channel;
    const Ints none = L::set8(0);
    const auto tap = [&](int row, int column) {
      return column > 4 ? none : L::bytes(taps + (row * 5 + column) * task.step.padded_outputs);
    };
    for (int c = 0; c < 5; ++c) {
      weights_[0][c] = interleave<L, Weights<L>>(tap(0, c), tap(1, c), tap(2, c), tap(3, c));
      weights_[1][c] = interleave<L, Weights<L>>(none, tap(0, c), tap(1, c), tap(2, c));
    }
    for (int c = 0; c < 5; c += 2) {
      weights_[0][5 + c / 2] = interleave<L, Weights<L>>(tap(4, c), none, tap(4, c + 1), none);
      weights_[1][5 + c / 2] = interleave<L, Weights<L>>(tap(3, c), tap(4, c), tap(3, c + 1), tap(4, c + 1));
    }
    const uint8_t* bias = task.memory.constant<uint8_t>(task.step.bias) + task.channel * 4;
    for (int i = 0; i < 4; ++i) bias_[i] = bias_of_codes<L>(L::words(bias, i), weights_[0], 8, i);
  }

  void run() const {
    const int64_t columns = task_.columns(), strips = (columns + kStrip - 1) / kStrip;
    for (int64_t row = task_.begin; row < task_.end;) {
      const bool two = step == 1 && row + 1 < task_.end && (row + 1) % task_.step.output.rows != 0;
      for (int64_t s = 0; s < strips; ++s) {
        const int64_t begin = columns * s / strips, end = columns * (s + 1) / strips;
        if (two) {
          strip<2>(row, begin, end);
        } else {
          strip<1>(row, begin, end);
        }
      }
      row += two ? 2 : 1;
    }
  }

 private:
  // A strip of input: columns up to `ready` are interleaved, two at a time.
  struct Strip {
    const uint8_t* input;
    int64_t columns, ready;
  };

  // The outputs begin … end−1 of `count` rows. While a tile is summed, the columns that the next one adds are
  // interleaved: the former keeps the multipliers busy, the latter everything else.
  template <int count>
  [[gnu::noinline]] void strip(int64_t row, int64_t begin, int64_t end) const {
    const Target target(task_);
    const int64_t wide = end - begin, next = target.next;
    const int64_t first = task_.memory.template constant<int64_t>(task_.step.tap_offsets)[0];
    Strip strip{task_.input(row) + first + begin * step * pixel_, (wide - 1) * step + 5, 0};
    while (strip.ready < strip.columns && strip.ready < (kTile - 1) * step + 5) interleave_two<count>(strip);
    uint8_t* output = task_.output(row) + begin * next;
    int64_t done = 0;
    for (; done + kTile <= wide; done += kTile) tile<count, kTile>(strip, done, target, output + done * next);
    if constexpr (sizeof(Ints) == 64) {    // with 16 registers single outputs are faster
      if (wide - done == 3 && done > 0) {  // one more that overlaps the last one
        tile<count, kTile>(strip, wide - kTile, target, output + (wide - kTile) * next);
        return;
      }
      if (wide - done >= 2) {
        tile<count, 2>(strip, done, target, output + done * next);
        done += 2;
      }
    }
    for (; done < wide; ++done) tile<count, 1>(strip, done, target, output + done * next);
  }

  // Two columns more; one beyond the end repeats the last one.
  template <int count>
  [[gnu::always_inline]] void interleave_two(Strip& strip) const {
    const int64_t c = strip.ready, left = strip.columns - c;
    const int64_t second = left > 1 ? pixel_ : 0, third = left > 2 ? 2 * pixel_ : second;
    const uint8_t* input = strip.input + c * pixel_;
    upper_[c] = upper(input);
    upper_[c + 1] = upper(input + second);
    const uint8_t* fifth = input + 4 * line_;
    const int64_t sixth = count == 2 ? line_ : 0;
    const auto low_high = [&](const uint8_t* from, Ints& low, Ints& high) __attribute__((always_inline)) {
      const Ints a = L::codes(from, apart_), b = L::codes(from + sixth, apart_);
      low = L::low8(a, b), high = L::high8(a, b);
    };
    Ints low[3], high[3];
    low_high(fifth, low[0], high[0]);
    low_high(fifth + second, low[1], high[1]);
    low_high(fifth + third, low[2], high[2]);
    for (int i = 0; i < 2; ++i) {
      lower_[c + i] = {
          {Codes<L>::of(L::low16(low[i], low[i + 1])), Codes<L>::of(L::high16(low[i], low[i + 1])),
           Codes<L>::of(L::low16(high[i], high[i + 1])), Codes<L>::of(L::high16(high[i], high[i + 1]))}};
    }
    strip.ready = c + 2;
  }
  [[gnu::always_inline]] Quad upper(const uint8_t* from) const {
    return interleave<L, Codes<L>>(L::codes(from, apart_), L::codes(from + line_, apart_),
                                   L::codes(from + 2 * line_, apart_), L::codes(from + 3 * line_, apart_));
  }

  // `count` rows of `wide` outputs.
  template <int count, int wide>
  [[gnu::always_inline]] void tile(Strip& strip, int64_t first, const Target& target, uint8_t* output) const {
    put_tile<L, count, wide>(
        target, codes_of_, output, [&](int i, Ints(&acc)[count][wide]) __attribute__((always_inline)) {
          if (wide == kTile && (step == 2 || i % 2 == 0) && strip.ready < strip.columns) {
            interleave_two<count>(strip);
          }
          quarter<count, wide>(first, i, acc);
        });
  }

  template <int count, int wide>
  [[gnu::always_inline]] void quarter(int64_t first, int i, Ints (&acc)[count][wide]) const {
    for (int r = 0; r < count; ++r) {
      for (int x = 0; x < wide; ++x) acc[r][x] = bias_[i];
    }
    add<count, wide, 1>(upper_ + first * step, 0, 5, i, acc);
    add<count, wide, 2>(lower_ + first * step, 5, 3, i, acc);
  }

  // `taps` quads, `apart` columns from one to the next, with weights from `from` on.
  template <int count, int wide, int apart>
  [[gnu::always_inline]] void add(const Quad* quads, int from, int taps, int i,
                                  Ints (&acc)[count][wide]) const {
    const Registers<L, (wide - 1) * step + 5> codes(quads, i);
    for (int t = 0; t < taps; ++t) {
      for (int r = 0; r < count; ++r) {
        const auto& weights = weights_[r][from + t].of[i].loaded();
        for (int x = 0; x < wide; ++x) acc[r][x] = dot<L>(acc[r][x], codes[x * step + t * apart], weights);
      }
    }
  }

  const Task& task_;
  int64_t pixel_, line_, apart_;
  CodesOfSums<L, kind> codes_of_;
  Ints bias_[4];
  Quarters<Weights<L>> weights_[2][8];  // [output row][five upper quads, then three lower ones]
  Quad* upper_;                         // [kColumns], as lower_
  Quad* lower_;
};

}  // namespace
}  // namespace calib8::engine
