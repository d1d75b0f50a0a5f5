// Depthwise convolution with 1×1 kernels (a scale and an offset per channel): no byte is moved.
//
// Quarter i takes byte i of every 32-bit word, for its weights are 0 elsewhere. So its sums belong to the
// channels 4·n + i, and one shuffle of the codes restores the order.
#pragma once

#include "depthwise_task.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Constants in that order.
template <class L>
struct EveryFourth : L {
  using Ints = typename L::Ints;
  static constexpr int kWords = sizeof(Ints) / 4;

  static Ints words(const uint8_t* from, int quarter) {
    alignas(64) int32_t in_order[4][kWords], result[kWords];
    for (int i = 0; i < 4; ++i) L::store(in_order[i], L::words(from, i));
    for (int word = 0; word < kWords; ++word) {
      result[word] = in_order[word % 4][word / 4 * 4 + quarter];
    }
    return L::load(result);
  }
  // Byte `quarter` of every word.
  static Ints bytes_of(Ints bytes, int quarter) {
    alignas(64) uint8_t kept[sizeof(Ints)];
    L::store(kept, bytes);
    for (size_t i = 0; i < sizeof kept; ++i) kept[i] = i % 4 == static_cast<size_t>(quarter) ? kept[i] : 0;
    return L::load(kept);
  }
  // For codes whose lanes hold four of each quarter.
  static Ints order() {
    alignas(64) uint8_t places[sizeof(Ints)];
    for (size_t i = 0; i < sizeof places; ++i) places[i] = static_cast<uint8_t>(i % 4 * 4 + i % 16 / 4);
    return L::load(places);
  }
};

template <class L, Rounding kind>
void one_by_one(const Task& task) {
  using Fourths = EveryFourth<L>;
  const Depthwise& step = task.step;
  const uint8_t* biases = task.memory.constant<uint8_t>(step.bias) + task.channel * 4;
  const typename L::Ints taps = L::bytes(task.memory.constant<uint8_t>(step.weights) + task.channel);
  const CodesOfSums<Fourths, kind> codes_of(step, task.memory, task.channel);
  const typename L::Ints order = Fourths::order();
  typename L::Ints bias[4];
  Weights<L> weights[4];
  for (int i = 0; i < 4; ++i) {
    bias[i] = Fourths::words(biases, i);
    weights[i] = Weights<L>::of(Fourths::bytes_of(taps, i));
  }
  const int64_t first = task.memory.constant<int64_t>(step.tap_offsets)[0], columns = task.columns();
  const int64_t apart = task.input_apart(), output_apart = task.output_apart(), channels = task.channels;
  const int64_t next = step.column_step * step.input.column_stride, output_next = step.output.column_stride;
  for (int64_t row = task.begin; row < task.end; ++row) {
    const uint8_t* input = task.input(row) + first;
    uint8_t* output = task.output(row);
    for (int64_t column = 0; column < columns; ++column, input += next, output += output_next) {
      const auto codes = Codes<L>::of(L::codes(input, apart));
      const typename L::Ints result =
          codes_of(dot<L>(bias[0], codes, weights[0]), dot<L>(bias[1], codes, weights[1]),
                   dot<L>(bias[2], codes, weights[2]), dot<L>(bias[3], codes, weights[3]));
      L::put(output, through_table(task.table, L::shuffle8(result, order)), channels, output_apart);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
