// Functions inside LSTMs of integers, one number at a time: Sigmoid and Tanh of 16 bits, and the norm of a
// gate (docs/numerics.md).
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "../rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int32_t kWordOne = INT16_MAX;                           // 1 in Q0.15
constexpr int32_t kExpOfEighth = 28918, kThird = 10923;           // exp(−⅛) and ⅓ in Q0.15
constexpr int32_t kInverseStart = 23130, kInverseSlope = -15420;  // 48/17 and −32/17 in Q2.13
constexpr int32_t kLeastPowerOfTwo = -2, kPowersOfTwo = 7;
constexpr int32_t kExponentials[kPowersOfTwo] = {25520, 19875, 12055, 4435, 600, 11, 0};  // exp(−2^k)
constexpr int kGateBits = 3;  // integer bits of what a gate reads
constexpr int64_t kNormBits = 12;

[[maybe_unused]] inline int32_t word_sum(int32_t a, int32_t b) {
  return static_cast<int32_t>(saturated16(a + b));
}
[[maybe_unused]] inline int32_t word_part(int32_t a, int32_t b) { return (a * b + (1 << 14)) >> 15; }

// exp(x) of −¼ ≤ x < 0, both Q0.15.
[[maybe_unused]] inline int32_t word_polynomial(int32_t x) {
  const int32_t y = x + (1 << 12), square = word_part(y, y);
  const int32_t quarter = (word_part(square, square) + 2) >> 2;
  const int32_t rest = word_part(quarter + word_part(square, y), kThird) + square;
  const int32_t inner = y + static_cast<int32_t>(rounding_divide(rest, 1));
  return word_sum(kExpOfEighth, word_part(inner, kExpOfEighth));
}

// exp(v) in Q0.15 of v ≤ 0 with so many integer bits.
[[maybe_unused]] inline int32_t word_exponential(int32_t v, int bits) {
  const int fraction = 15 - bits;
  const int32_t quarter = 1 << (fraction - 2), rest = (v & (quarter - 1)) - quarter, steps = rest - v;
  int32_t result = word_polynomial(rest * (1 << bits));
  for (int i = 0; i < kPowersOfTwo && i + kLeastPowerOfTwo < bits; ++i) {
    if ((steps >> (fraction + i + kLeastPowerOfTwo) & 1) != 0) result = word_part(result, kExponentials[i]);
  }
  if (bits > 5 && v < -(1 << (fraction + 5))) result = 0;
  return v == 0 ? kWordOne : result;
}

// 2 / (1 + e) in Q2.13.
[[maybe_unused]] inline int32_t word_inverse(int32_t e) {
  const int32_t half = (e + kWordOne + 1) >> 1;
  int32_t x = kInverseStart + word_part(half, kInverseSlope);
  for (int i = 0; i < 3; ++i) {
    const int32_t error = (1 << 13) - word_part(half, x);
    x += static_cast<int32_t>(saturated16(int64_t{word_part(x, error)} * 4));
  }
  return x;
}

[[maybe_unused]] inline int16_t word_sigmoid(int16_t a) {
  if (a == 0) return 1 << 14;
  const int32_t inverse = word_inverse(word_exponential(a > 0 ? -a : a, kGateBits));
  const int32_t above = word_sum(inverse, inverse);
  return static_cast<int16_t>(a > 0 ? above : kWordOne - above);
}

[[maybe_unused]] inline int16_t word_tanh(int16_t a, int bits) {
  if (a == 0) return 0;
  const int32_t inverse = word_inverse(word_exponential(a > 0 ? -a : a, bits + 1));
  const auto size = static_cast<int32_t>(saturated16((inverse - (1 << 13)) * int64_t{4}));
  return static_cast<int16_t>(a > 0 ? size : -size);
}

struct CellFactor {
  int32_t multiplier, shift;
};

// 1/√value of 1 ≤ value < 2^31 by Newton's method in Q3.28.
[[maybe_unused]] inline CellFactor reciprocal_root(int64_t value) {
  if (value <= 1) return {INT32_MAX, 0};
  int64_t power = 11;
  for (; value >= int64_t{1} << 29; value >>= 2) ++power;
  for (; value < int64_t{1} << 27; value <<= 2) --power;
  const int64_t half = rounding_divide(value >> 1, 1);
  int64_t x = int64_t{1} << 28;
  for (int i = 0; i < 5; ++i) {
    const int64_t cube = rounding_doubling_high(rounding_doubling_high(x, x), x) * 64;
    const int64_t bounded = clamped(cube, INT32_MIN, INT32_MAX);
    const int64_t step =
        rounding_doubling_high((1 << 28) + (1 << 27), x) - rounding_doubling_high(half, bounded);
    x = clamped(step * 8, INT32_MIN, INT32_MAX);
  }
  x = rounding_doubling_high(x, 1518500250);  // √½
  return {static_cast<int32_t>(power < 0 ? x << -power : x), static_cast<int32_t>(power < 0 ? 0 : -power)};
}

// The norm of a gate in place.
[[maybe_unused]] inline void normalize(int16_t* gate, int64_t units, const int16_t* coefficients,
                                       const int32_t* bias, int32_t guard, CellFactor factor) {
  int64_t sum = 0, squares = 0;
  for (int64_t i = 0; i < units; ++i) sum += gate[i], squares += gate[i] * gate[i];
  const int64_t mean = sum * 1024 / units, one = int64_t{1} << 20;
  const int64_t variance = (squares * (one / units) - mean * mean) / one;
  const CellFactor root = reciprocal_root(variance < 1 ? guard : variance);
  for (int64_t i = 0; i < units; ++i) {
    const int64_t scaled = multiply_double(1024 * int64_t{gate[i]} - mean, root.multiplier, root.shift);
    const auto weighted = static_cast<int32_t>(static_cast<uint32_t>(scaled * coefficients[i] + bias[i]));
    const int64_t rounded = (int64_t{weighted} + (weighted > 0 ? 512 : -512)) / 1024;
    const int64_t value = multiply_double(rounded, factor.multiplier, factor.shift + kNormBits);
    gate[i] = static_cast<int16_t>(saturated16(value));
  }
}

}  // namespace
}  // namespace calib8::engine
