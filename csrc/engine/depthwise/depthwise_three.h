// Depthwise convolution with 3×3 kernels, dilation 1: columns of rows are interleaved once and used by every
// window that they are part of.
//
// One output row:   the rows (0, 1, 2) of a column make a quad, with weights (w0, w1, w2, 0).
// Two output rows:  the rows (0, 1, 2, 3) make a quad, with weights (w0, w1, w2, 0) and (0, w0, w1, w2).
#pragma once

#include "depthwise_lanes.h"
#include "depthwise_task.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <class L, Rounding kind, int step>
class ThreeByThree {
  using Ints = typename L::Ints;
  using Column = Quarters<Codes<L>>;
  static constexpr int kTile = 2;                          // outputs side by side
  static constexpr int kColumns = (kTile - 1) * step + 3;  // that they read

 public:
  explicit ThreeByThree(const Task& task)
      : task_(task),
        pixel_(task.step.input.column_stride),
        line_(task.step.input.row_stride),
        apart_(task.input_apart()),
        codes_of_(task.step, task.memory, task.channel) {
    const uint8_t* taps = task.memory.constant<uint8_t>(task.step.weights) + task.channel;
    const int64_t tap = task.step.padded_outputs;
    const Ints none = L::set8(0);
    for (int column = 0; column < 3; ++column, taps += tap) {
      const Ints a = L::bytes(taps), b = L::bytes(taps + 3 * tap), c = L::bytes(taps + 6 * tap);
      weights_[0][column] = interleave<L, Weights<L>>(a, b, c, none);
      weights_[1][column] = interleave<L, Weights<L>>(none, a, b, c);
    }
    const uint8_t* bias = task.memory.constant<uint8_t>(task.step.bias) + task.channel * 4;
    for (int i = 0; i < 4; ++i) bias_[i] = bias_of_codes<L>(L::words(bias, i), weights_[0], 3, i);
  }

  void run() const {
    for (int64_t row = task_.begin; row < task_.end;) {
      const bool two = step == 1 && row + 1 < task_.end && (row + 1) % task_.step.output.rows != 0;
      if (two) {
        rows<2>(row);
      } else {
        rows<1>(row);
      }
      row += two ? 2 : 1;
    }
  }

 private:
  template <int count>
  [[gnu::noinline]] void rows(int64_t row) const {
    const uint8_t* input =
        task_.input(row) + task_.memory.template constant<int64_t>(task_.step.tap_offsets)[0];
    uint8_t* output = task_.output(row);
    const int64_t columns = task_.columns(), pixel = pixel_, line = line_;
    const Target target(task_);
    Column kept[3 - step] = {column<count>(input, line)};
    if constexpr (step == 1) kept[1] = column<count>(input + pixel, line);
    input += (3 - step) * pixel;
    int64_t done = 0;
    for (; done + kTile <= columns; done += kTile) {
      Column all[kColumns];
      for (int c = 0; c < 3 - step; ++c) all[c] = kept[c];
      for (int c = 3 - step; c < kColumns; ++c, input += pixel) all[c] = column<count>(input, line);
      tile<count, kTile>(all, target, output);
      for (int c = 0; c < 3 - step; ++c) kept[c] = all[kColumns - (3 - step) + c];
      output += kTile * target.next;
    }
    if (done < columns) {
      Column all[3];
      for (int c = 0; c < 3 - step; ++c) all[c] = kept[c];
      for (int c = 3 - step; c < 3; ++c, input += pixel) all[c] = column<count>(input, line);
      tile<count, 1>(all, target, output);
    }
  }

  template <int count>
  [[gnu::always_inline]] Column column(const uint8_t* from, int64_t line) const {
    const Ints third = L::codes(from + 2 * line, apart_);
    const Ints fourth = count == 2 ? L::codes(from + 3 * line, apart_) : third;
    return interleave<L, Codes<L>>(L::codes(from, apart_), L::codes(from + line, apart_), third, fourth);
  }

  // count rows of `wide` outputs.
  template <int count, int wide>
  [[gnu::always_inline]] void tile(const Column* columns, const Target& target, uint8_t* output) const {
    put_tile<L, count, wide>(target, codes_of_, output,
                             [&](int i, Ints(&acc)[count][wide])
                                 __attribute__((always_inline)) { quarter<count, wide>(columns, i, acc); });
  }

  template <int count, int wide>
  [[gnu::always_inline]] void quarter(const Column* columns, int i, Ints (&acc)[count][wide]) const {
    for (int r = 0; r < count; ++r) {
      for (int x = 0; x < wide; ++x) acc[r][x] = bias_[i];
    }
    for (int c = 0; c < 3; ++c) {
      for (int r = 0; r < count; ++r) {
        const auto& weights = weights_[r][c].of[i].loaded();
        for (int x = 0; x < wide; ++x) acc[r][x] = dot<L>(acc[r][x], columns[x * step + c].of[i], weights);
      }
    }
  }

  const Task& task_;
  int64_t pixel_, line_, apart_;
  CodesOfSums<L, kind> codes_of_;
  Ints bias_[4];
  Quarters<Weights<L>> weights_[2][3];  // [output row][column]
};

}  // namespace
}  // namespace calib8::engine
