// Depthwise convolution with any window: taps four by four.
//
// The codes of four taps are interleaved, so that one dot product adds four products to the sum of each
// channel; the weights are interleaved by the same instructions. Everything has internal linkage: each
// instruction set includes this file and compiles its own.
#pragma once

#include <cstring>

#if defined(__aarch64__)
#include "depthwise_activation_neon.h"
#else
#include "depthwise_activation_x86.h"
#endif
#include "depthwise_lanes.h"
#include "depthwise_loads.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Bias and weights of one block in the order of the quarters.
template <class L>
struct Layer {
  using Ints = typename L::Ints;
  static_assert(sizeof(Quarters<Weights<L>>) <= kQuadBytes, "more than its scratch memory");

  explicit Layer(const Task& task) : weights(reinterpret_cast<Quarters<Weights<L>>*>(task.memory.scratch)) {
    const Depthwise& step = task.step;
    const uint8_t* taps = task.memory.constant<uint8_t>(step.weights) + task.channel;
    const int64_t tap = step.padded_outputs;
    for (int64_t t = 0; t < step.taps; t += 4, taps += 4 * tap) {
      weights[t / 4] = interleave<L, Weights<L>>(L::bytes(taps), L::bytes(taps + tap),
                                                 L::bytes(taps + 2 * tap), L::bytes(taps + 3 * tap));
    }
    const uint8_t* first = task.memory.constant<uint8_t>(step.bias) + task.channel * 4;
    for (int i = 0; i < 4; ++i) {
      bias[i] = bias_of_codes<L>(L::words(first, i), weights, step.taps / 4, i);
    }
  }

  Ints bias[4];
  Quarters<Weights<L>>* weights;  // [taps / 4], in the scratch memory
};

// Sums of one output pixel: any kernel, stride and dilation.
template <class L, class Load>
[[gnu::always_inline]] inline void add_window(const Depthwise& step, const int64_t* taps,
                                              const Layer<L>& layer, const Load& load, const uint8_t* input,
                                              typename L::Ints (&acc)[4]) {
  for (int i = 0; i < 4; ++i) acc[i] = layer.bias[i];
  for (int64_t t = 0; t < step.taps; t += 4) {
    const Quarters<Codes<L>> codes =
        interleave<L, Codes<L>>(load(input + taps[t]), load(input + taps[t + 1]), load(input + taps[t + 2]),
                                load(input + taps[t + 3]));
    for (int i = 0; i < 4; ++i) acc[i] = dot<L>(acc[i], codes.of[i], layer.weights[t / 4].of[i]);
  }
}

template <class L, class Load, Rounding kind>
void any_window(const Task& task) {
  const Depthwise& step = task.step;
  const int64_t* taps = task.memory.constant<int64_t>(step.tap_offsets);
  const Layer<L> layer(task);
  const Load load(task);
  const CodesOfSums<L, kind> codes_of(step, task.memory, task.channel);
  const int64_t columns = task.columns(), apart = task.output_apart();
  for (int64_t row = task.begin; row < task.end; ++row) {
    const uint8_t* input = task.input(row);
    uint8_t* output = task.output(row);
    for (int64_t column = 0; column < columns; ++column) {
      typename L::Ints acc[4];
      add_window<L>(step, taps, layer, load, input, acc);
      const auto codes = through_table(task.table, codes_of(acc[0], acc[1], acc[2], acc[3]));
      L::put(output, codes, task.channels, apart);
      input += step.column_step * step.input.column_stride;
      output += step.output.column_stride;
    }
  }
}

// Sums that are stored as they are, and what the forms in registers do not take.
template <class L, class Load>
void any_rule(const Task& task) {
  const Depthwise& step = task.step;
  const int64_t* taps = task.memory.constant<int64_t>(step.tap_offsets);
  const Layer<L> layer(task);
  const Load load(task);
  const AnyRule<L> rule(task);
  const bool whole = step.rescale.kind == Rescale::kNone;
  for (int64_t row = task.begin; row < task.end; ++row) {
    const uint8_t* input = task.input(row);
    int64_t place = task.place(row);
    for (int64_t column = 0; column < step.output.columns; ++column) {
      typename L::Ints acc[4];
      add_window<L>(step, taps, layer, load, input, acc);
      alignas(64) int32_t sums[L::kChannels];
      const bool straight = whole && task.channels == L::kChannels;
      int32_t* to = straight ? task.memory.data<int32_t>(step.output) + place : sums;
      for (int l = 0; l < L::kChannels / 16; ++l) {
        for (int i = 0; i < 4; ++i) Lanes<16>::store(to + 16 * l + 4 * i, L::lane(acc[i], l));
      }
      if (!whole) {
        rule.store(sums, task.memory.data<uint8_t>(step.output) + place);
      } else if (!straight) {
        std::memcpy(task.memory.data<int32_t>(step.output) + place, sums,
                    static_cast<size_t>(task.channels) * sizeof *sums);
      }
      input += step.column_step * step.input.column_stride;
      place += step.output.column_stride;
    }
  }
}

}  // namespace
}  // namespace calib8::engine
