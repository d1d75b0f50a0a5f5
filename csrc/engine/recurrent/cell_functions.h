// Functions inside recurrent cells, one number at a time (docs/numerics.md). Every operation is rounded to
// float32 by itself; what is no number stays none.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "../steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// 2^f = 1 + f·(e₁ + f·(…)) for f of −½ … ½
constexpr float kPowers[] = {0x1.62e43p-1F,  0x1.ebfbep-3F,   0x1.c6af6cp-5F,
                             0x1.3b2a1cp-7F, 0x1.5f0896p-10F, 0x1.444004p-13F};
constexpr float kLog2E = 1.44269504F, kTwiceLog2E = 2.88539008F, kLeastPower = -126.0F;

constexpr uint32_t kMagnitude = 0x7FFFFFFF, kInfinity = 0x7F800000, kNotANumber = 0x7FC00000;
constexpr uint32_t kLeastCoded = 0x0D800000;  // 2^−100: rows below it have no codes but 0

inline uint32_t bits_of(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float number_of(uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

struct CellFunction {
  int32_t kind;
  float alpha, beta;
};

// The three functions of a direction.
struct CellFunctions {
  CellFunction f, g, h;

  explicit CellFunctions(const int32_t* constants)
      : f(one(constants)), g(one(constants + 3)), h(one(constants + 6)) {}
  static CellFunction one(const int32_t* numbers) {
    return {numbers[0], number_of(static_cast<uint32_t>(numbers[1])),
            number_of(static_cast<uint32_t>(numbers[2]))};
  }
};

// 2^t of t ≤ 0
[[maybe_unused]] inline float power_of_two(float t) {
  if (std::isnan(t)) return t;
  if (t < kLeastPower) t = kLeastPower;
  const float whole = std::rint(t), rest = t - whole;
  float power = kPowers[5];
  for (int i = 4; i >= 0; --i) {
    power = power * rest;
    power = power + kPowers[i];
  }
  power = power * rest;
  power = power + 1.0F;
  return power * number_of(static_cast<uint32_t>(static_cast<int32_t>(whole) + 127) << 23);
}

[[maybe_unused]] inline float sigmoid_of(float x) {
  const float z = power_of_two(-(std::fabs(x) * kLog2E));
  return (x < 0 ? z : 1.0F) / (1.0F + z);
}
[[maybe_unused]] inline float tanh_of(float x) {
  const float z = power_of_two(-(std::fabs(x) * kTwiceLog2E));
  return std::copysign((1.0F - z) / (1.0F + z), x);
}
[[maybe_unused]] inline float line_of(const CellFunction& function, float x) {
  const float scaled = x * function.alpha;
  return scaled + function.beta;
}
[[maybe_unused]] inline float within_bounds(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

[[maybe_unused]] inline float value_of(const CellFunction& function, float x) {
  switch (function.kind) {
    case Recurrent::kSigmoid:
      return sigmoid_of(x);
    case Recurrent::kTanh:
      return tanh_of(x);
    case Recurrent::kRelu:
      return x < 0 ? 0.0F : x;
    case Recurrent::kHardSigmoid:
      return within_bounds(line_of(function, x), 0.0F, 1.0F);
    case Recurrent::kSoftsign:
      return x / (1.0F + std::fabs(x));
    case Recurrent::kAffine:
      return line_of(function, x);
    default:
      return function.alpha * tanh_of(x * function.beta);
  }
}

// What is no number gets one form: its sign and payload are the processor's.
inline void with_one_nan(float* values, int64_t count) {
  const float nan = number_of(0x7fc00000);
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] != values[i] ? nan : values[i];
}

}  // namespace
}  // namespace calib8::engine
