// Elementwise steps in plain loops: what every other kernel of theirs must equal.
#include <cmath>

#include "each_element.h"
#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

uint8_t sum_of_sums(const AddSums& step, const Memory& memory, int64_t a, int64_t b, int64_t channel) {
  const int64_t c = step.per_channel != 0 ? channel : 0;
  if (step.kind == 1) {
    const float left = memory.constant<float>(step.lhs_factor)[c] * static_cast<float>(a);
    const float right = memory.constant<float>(step.rhs_factor)[c] * static_cast<float>(b);
    const float value = (left + right) / static_cast<float>(step.output);
    return static_cast<uint8_t>(rounded_code(value, step.zero_point, step.low, step.high));
  }
  const int64_t shift = memory.constant<int32_t>(step.right_shift)[c];
  const int64_t left = a * memory.constant<int32_t>(step.lhs_factor)[c];
  const int64_t right = b * memory.constant<int32_t>(step.rhs_factor)[c];
  const uint64_t sum = static_cast<uint64_t>(left) + static_cast<uint64_t>(right);  // modulo 2^64
  const int64_t value = static_cast<int64_t>(sum + (uint64_t{1} << (shift - 1))) >> shift;
  return static_cast<uint8_t>(clamped(value + step.zero_point, step.low, step.high));
}

uint8_t product_of(const Mul& step, uint8_t lhs, uint8_t rhs) {
  const int64_t acc = (lhs - step.lhs_zero) * (rhs - step.rhs_zero);
  if (step.kind == Rescale::kFloat) {
    const float scaled = static_cast<float>(acc) * static_cast<float>(step.factor);
    const float value = scaled + static_cast<float>(step.zero_point);
    return static_cast<uint8_t>(rounded_code(value, step.output_shift, step.low, step.high));
  }
  const int64_t value = multiply_fixed(step.kind, acc, step.multiplier, step.exponent);
  return static_cast<uint8_t>(clamped(value + step.zero_point + step.output_shift, step.low, step.high));
}

uint8_t quotient_of(const Div& step, const Memory& memory, uint8_t lhs, uint8_t rhs) {
  const int64_t a = lhs - step.lhs_zero;
  if (step.kind == Div::kFloat) {
    const float real = static_cast<float>(step.lhs) * static_cast<float>(a);
    const float value = real / memory.constant<float>(step.divisor)[rhs] / static_cast<float>(step.output);
    return static_cast<uint8_t>(rounded_code(value, step.zero_point, step.low, step.high));
  }
  const int64_t multiplier = memory.constant<int32_t>(step.multiplier)[rhs];
  const int64_t value = multiply_single(a, multiplier, memory.constant<int32_t>(step.shift)[rhs]);
  return static_cast<uint8_t>(clamped(value + step.zero_point, step.low, step.high));
}

uint8_t real_code(const RealRescale& step, const Memory& memory, int32_t acc, int64_t channel) {
  const float real = static_cast<float>(acc) * static_cast<float>(step.input) *
                     memory.constant<float>(step.factor)[step.per_channel != 0 ? channel : 0];
  return static_cast<uint8_t>(
      away_code(real / static_cast<float>(step.output), step.zero_point, step.low, step.high));
}

uint8_t real_pair(const RealPair& step, uint8_t lhs, uint8_t rhs) {
  const float a = static_cast<float>(step.lhs) * static_cast<float>(lhs - step.lhs_zero);
  const float b = static_cast<float>(step.rhs) * static_cast<float>(rhs - step.rhs_zero);
  const float real = step.kind == RealPair::kSum ? a + b : step.kind == RealPair::kDifference ? a - b : a * b;
  return static_cast<uint8_t>(
      away_code(real / static_cast<float>(step.output), step.zero_point, step.low, step.high));
}

}  // namespace

void reference_requantize(const Requantize& step, const Memory& memory, Part part) {
  const int32_t* input = memory.data<int32_t>(step.tensors.input_buffer, step.tensors.input_offset);
  uint8_t* output = memory.data<uint8_t>(step.tensors.output_buffer, step.tensors.output_offset);
  each_element(step.tensors, part, [&](int64_t from, int64_t to, int64_t channel) {
    output[to] = rescaled(step.rescale, memory, input[from], step.per_channel != 0 ? channel : 0);
  });
}

void reference_add(const Add& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.pair.lhs_buffer, step.pair.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.pair.rhs_buffer, step.pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(step.pair.output_buffer, step.pair.output_offset);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    const uint8_t code = summed(step.sum, lhs[a], rhs[b]);
    output[to] = table == nullptr ? code : table[code];
  });
}

void reference_add_sums(const AddSums& step, const Memory& memory, Part part) {
  const Pair& pair = step.pair;
  uint8_t* output = memory.data<uint8_t>(pair.output_buffer, pair.output_offset);
  each_element(pair, part, [&](int64_t lhs, int64_t rhs, int64_t to, int64_t channel) {
    const int64_t a = memory.data<int32_t>(pair.lhs_buffer, pair.lhs_offset)[lhs];
    const int64_t b = step.rhs_size == 4 ? memory.data<int32_t>(pair.rhs_buffer, pair.rhs_offset)[rhs]
                                         : memory.data<uint8_t>(pair.rhs_buffer, pair.rhs_offset)[rhs];
    output[to] = sum_of_sums(step, memory, a, b - step.rhs_zero, channel);
  });
}

void reference_mul(const Mul& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.pair.lhs_buffer, step.pair.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.pair.rhs_buffer, step.pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(step.pair.output_buffer, step.pair.output_offset);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    output[to] = product_of(step, lhs[a], rhs[b]);
  });
}

void reference_div(const Div& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.pair.lhs_buffer, step.pair.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.pair.rhs_buffer, step.pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(step.pair.output_buffer, step.pair.output_offset);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    output[to] = quotient_of(step, memory, lhs[a], rhs[b]);
  });
}

void reference_real_rescale(const RealRescale& step, const Memory& memory, Part part) {
  const int32_t* input = memory.data<int32_t>(step.tensors.input_buffer, step.tensors.input_offset);
  uint8_t* output = memory.data<uint8_t>(step.tensors.output_buffer, step.tensors.output_offset);
  each_element(step.tensors, part, [&](int64_t from, int64_t to, int64_t channel) {
    output[to] = real_code(step, memory, input[from], channel);
  });
}

void reference_real_pair(const RealPair& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.pair.lhs_buffer, step.pair.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.pair.rhs_buffer, step.pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(step.pair.output_buffer, step.pair.output_offset);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    const uint8_t code = real_pair(step, lhs[a], rhs[b]);
    output[to] = table == nullptr ? code : table[code];
  });
}

void reference_extreme(const Extreme& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.pair.lhs_buffer, step.pair.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.pair.rhs_buffer, step.pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(step.pair.output_buffer, step.pair.output_offset);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    const bool left = step.largest != 0 ? lhs[a] > rhs[b] : lhs[a] < rhs[b];
    output[to] = left ? lhs[a] : rhs[b];
  });
}

void reference_lookup(const Lookup& step, const Memory& memory, Part part) {
  const uint8_t* input = memory.data<uint8_t>(step.tensors.input_buffer, step.tensors.input_offset);
  uint8_t* output = memory.data<uint8_t>(step.tensors.output_buffer, step.tensors.output_offset);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  each_element(step.tensors, part, [&](int64_t from, int64_t to, int64_t channel) {
    output[to] = table[(step.per_channel != 0 ? channel * 256 : 0) + input[from]];
  });
}

}  // namespace calib8::engine
