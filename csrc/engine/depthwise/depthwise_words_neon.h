// Depthwise convolution on Arm without dot products: codes and weights as numbers of 16 bits, four products
// of a tap at a time (smlal).
//
// Everything has internal linkage.
#pragma once

#include "depthwise_activation_neon.h"
#include "depthwise_loads.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

using Sixteen = Block<16, 16>;

// Bias and weights of a block.
struct Layer {
  Ints bias[4];
  int16x8_t (*weights)[2];  // [taps], in the scratch memory
  int64_t taps;             // without the last ones whose weights are all 0

  explicit Layer(const Task& task)
      : weights(reinterpret_cast<int16x8_t (*)[2]>(task.memory.scratch)), taps(0) {
    static_assert(4 * sizeof *weights <= kQuadBytes, "more than its scratch memory");
    const Depthwise& step = task.step;
    const int32_t* first = task.memory.constant<int32_t>(step.bias) + task.channel;
    for (int i = 0; i < 4; ++i) bias[i] = vld1q_s32(first + 4 * i);
    const int8_t* from = task.memory.constant<int8_t>(step.weights) + task.channel;
    for (int64_t t = 0; t < step.taps; ++t, from += step.padded_outputs) {
      const int8x16_t bytes = vld1q_s8(from);
      weights[t][0] = vmovl_s8(vget_low_s8(bytes)), weights[t][1] = vmovl_high_s8(bytes);
      if (vmaxvq_u8(vreinterpretq_u8_s8(bytes)) != 0) taps = t + 1;
    }
  }
};

// Sums of 8 channels and one tap more.
[[gnu::always_inline]] inline void add_tap(int32x4_t& low, int32x4_t& high, uint8x8_t codes,
                                           int16x8_t weights) {
  const int16x8_t words = vreinterpretq_s16_u16(vmovl_u8(codes));
  low = vmlal_s16(low, vget_low_s16(words), vget_low_s16(weights));
  high = vmlal_high_s16(high, words, weights);
}

// Sums of `count` output pixels side by side, whose windows are `next` apart: any kernel, stride and
// dilation.
template <int count, class Load>
[[gnu::always_inline]] inline void add_windows(const int64_t* taps, const Layer& layer, const Load& load,
                                               const uint8_t* input, int64_t next, Ints (&acc)[count][4]) {
  for (int x = 0; x < count; ++x) {
    for (int i = 0; i < 4; ++i) acc[x][i] = layer.bias[i];
  }
  for (int64_t t = 0; t < layer.taps; ++t) {
    const uint8_t* from = input + taps[t];
    const int16x8_t low = layer.weights[t][0], high = layer.weights[t][1];
    for (int x = 0; x < count; ++x) {
      const uint8x16_t codes = V::u8(load(from + x * next));
      add_tap(acc[x][0], acc[x][1], vget_low_u8(codes), low);
      add_tap(acc[x][2], acc[x][3], vget_high_u8(codes), high);
    }
  }
}

// put(column, acc) for all columns of a row.
template <class Load, class Put>
[[gnu::always_inline]] inline void each_window(const Task& task, const Layer& layer, const Load& load,
                                               int64_t row, const Put& put) {
  constexpr int kTogether = 3;
  const int64_t* taps = task.memory.constant<int64_t>(task.step.tap_offsets);
  const int64_t columns = task.columns(), next = task.step.column_step * task.step.input.column_stride;
  const uint8_t* input = task.input(row);
  int64_t column = 0;
  for (; column + kTogether <= columns; column += kTogether) {
    Ints acc[kTogether][4];
    add_windows(taps, layer, load, input + column * next, next, acc);
    for (int x = 0; x < kTogether; ++x) put(column + x, acc[x]);
  }
  for (; column < columns; ++column) {
    Ints acc[1][4];
    add_windows(taps, layer, load, input + column * next, next, acc);
    put(column, acc[0]);
  }
}

template <class Load, Rounding kind>
void any_window(const Task& task) {
  const Layer layer(task);
  const Load load(task);
  const CodesOfSums<Sixteen, kind> codes_of(task.step, task.memory, task.channel);
  const int64_t next = task.step.output.column_stride;
  for (int64_t row = task.begin; row < task.end; ++row) {
    uint8_t* output = task.output(row);
    each_window(task, layer, load, row, [&](int64_t column, const Ints(&acc)[4]) {
      Sixteen::put(output + column * next, codes_of(acc[0], acc[1], acc[2], acc[3]), task.channels, 0);
    });
  }
}

// Sums that are stored as they are, and what the forms in registers do not take.
template <class Load>
void any_rule(const Task& task) {
  const Layer layer(task);
  const Load load(task);
  const AnyRule<Sixteen> rule(task);
  const bool whole = task.step.rescale.kind == Rescale::kNone;
  const int64_t next = task.step.output.column_stride;
  for (int64_t row = task.begin; row < task.end; ++row) {
    const int64_t place = task.place(row);
    each_window(task, layer, load, row, [&](int64_t column, const Ints(&acc)[4]) {
      int32_t sums[16];
      for (int i = 0; i < 4; ++i) vst1q_s32(sums + 4 * i, acc[i]);
      const int64_t at = place + column * next;
      if (!whole) return rule.store(sums, task.memory.data<uint8_t>(task.step.output) + at);
      std::memcpy(task.memory.data<int32_t>(task.step.output) + at, sums,
                  static_cast<size_t>(task.channels) * sizeof *sums);
    });
  }
}

// Windows of 3×3 without dilation, 8 channels at a time: a column of codes serves all windows that it is part
// of.
template <Rounding kind, int step>
class ThreeByThree {
  static constexpr int kTile = 2;                          // outputs side by side
  static constexpr int kColumns = (kTile - 1) * step + 3;  // that they read
  static constexpr int kKept = 3 - step;                   // that the next ones read too
 public:
  explicit ThreeByThree(const Task& task)
      : task_(task), layer_(task), codes_of_(task.step, task.memory, task.channel) {}

  void run() const {
    for (int64_t row = task_.begin; row < task_.end; ++row) {
      line(row, 0);
      if (task_.channels > 8) line(row, 1);
    }
  }

 private:
  // The 8 channels of one half of a block.
  [[gnu::noinline]] void line(int64_t row, int half) const {
    const Depthwise& of = task_.step;
    const int64_t pixel = of.input.column_stride, line = of.input.row_stride, next = of.output.column_stride;
    const uint8_t* input = task_.input(row) + task_.memory.constant<int64_t>(of.tap_offsets)[0] + 8 * half;
    uint8_t* output = task_.output(row) + 8 * half;
    const int64_t channels = task_.channels - 8 * half, columns = task_.columns();
    int16x8_t weights[9];
    for (int tap = 0; tap < 9; ++tap) weights[tap] = layer_.weights[tap][half];
    const Ints low = layer_.bias[2 * half], high = layer_.bias[2 * half + 1];
    int16x8_t all[kColumns][3];
    const auto load = [&](int c) __attribute__((always_inline)) {
      for (int r = 0; r < 3; ++r) all[c][r] = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(input + r * line)));
      input += pixel;
    };
    // Words of one or two outputs, whose sums grow in turns.
    const auto sum = [&](auto wide, Ints(&words)[kTile]) __attribute__((always_inline)) {
      Ints first[kTile], other[kTile];
      for (int x = 0; x < wide; ++x) first[x] = low, other[x] = high;
      for (int tap = 0; tap < 9; ++tap) {
        for (int x = 0; x < wide; ++x) {
          const int16x8_t codes = all[x * step + tap % 3][tap / 3];
          first[x] = vmlal_s16(first[x], vget_low_s16(codes), vget_low_s16(weights[tap]));
          other[x] = vmlal_high_s16(other[x], codes, weights[tap]);
        }
      }
      for (int x = 0; x < wide; ++x) words[x] = codes_of_.half(2 * half, first[x], other[x]);
    };
    const auto put = [&](uint8x8_t codes, uint8_t* to) __attribute__((always_inline)) {
      if (__builtin_expect(channels >= 8, 1)) return vst1_u8(to, codes);
      V::store_some(to, V::ints(vcombine_u8(codes, codes)), channels);
    };
    for (int c = 0; c < kKept; ++c) load(c);
    int64_t done = 0;
    for (; done + kTile <= columns; done += kTile, output += kTile * next) {
      for (int c = kKept; c < kColumns; ++c) load(c);
      Ints words[kTile];
      sum(std::integral_constant<int, kTile>{}, words);
      const uint8x16_t codes = V::u8(codes_of_.packing()(words[0], words[1]));
      put(vget_low_u8(codes), output);
      put(vget_high_u8(codes), output + next);
      for (int c = 0; c < kKept; ++c) {
        for (int r = 0; r < 3; ++r) all[c][r] = all[kColumns - kKept + c][r];
      }
    }
    if (done == columns) return;
    for (int c = kKept; c < 3; ++c) load(c);
    Ints words[kTile];
    sum(std::integral_constant<int, 1>{}, words);
    put(vget_low_u8(V::u8(codes_of_.packing()(words[0], words[0]))), output);
  }

  const Task& task_;
  Layer layer_;
  CodesOfSums<Sixteen, kind> codes_of_;
};

template <Rounding kind>
[[gnu::noinline]] void one_filter(const Task& task) {
  const Depthwise& step = task.step;
  if (step.multiplier != 1) return any_window<Repeated<Sixteen>, kind>(task);
  const bool plain = step.layers == 1 && step.row_dilation == 1 && step.column_dilation == 1;
  if (plain && step.kernel_rows == 3 && step.kernel_columns == 3) {
    if (step.column_step == 1) return ThreeByThree<kind, 1>(task).run();
    if (step.column_step == 2) return ThreeByThree<kind, 2>(task).run();
  }
  any_window<Direct<Sixteen>, kind>(task);
}

void run_any_rule(const Task& task) {
  if (task.step.multiplier == 1) return any_rule<Direct<Sixteen>>(task);
  any_rule<Repeated<Sixteen>>(task);
}

}  // namespace
}  // namespace calib8::engine
