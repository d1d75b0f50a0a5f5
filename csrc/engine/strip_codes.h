// Sums of a strip of 16 channels become codes (or steps of a curve, int16): loops that every instruction
// set's compiler turns into vectors.
//
// The formulas are those of rules.h, with bits that are the same for the whole strip prepared once.
// Everything here has internal linkage: files of several instruction sets include it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int kStrip = 16;

// A rescale at 16 neighbouring channels.
struct StripRescale {
  alignas(64) float factor[kStrip];
  alignas(64) int32_t multiplier[kStrip];
  alignas(64) int32_t left[kStrip], right[kStrip];  // kDouble: shifts in both directions
  alignas(64) uint64_t distance[kStrip];            // kSingle, kAway: 31 − shift
  float least, most;                                // clamp before the zero point is added
  int32_t low, high, zero_point;
  int64_t kind;

  StripRescale(const Rescale& rule, const Memory& memory, int64_t channel)
      : least(static_cast<float>(rule.low - rule.zero_point)),
        most(static_cast<float>(rule.high - rule.zero_point)),
        low(static_cast<int32_t>(rule.low - rule.zero_point)),
        high(static_cast<int32_t>(rule.high - rule.zero_point)),
        zero_point(static_cast<int32_t>(rule.zero_point)),
        kind(rule.kind) {
    if (kind == Rescale::kNone) return;
    if (kind == Rescale::kFloat) {
      std::memcpy(factor, memory.constant<float>(rule.factor) + channel, sizeof factor);
      return;
    }
    std::memcpy(multiplier, memory.constant<int32_t>(rule.factor) + channel, sizeof multiplier);
    const int32_t* shift = memory.constant<int32_t>(rule.shift) + channel;
    for (int i = 0; i < kStrip; ++i) {
      left[i] = shift[i] > 0 ? shift[i] : 0;
      right[i] = shift[i] > 0 ? 0 : -shift[i];
      distance[i] = static_cast<uint64_t>(31 - shift[i]);
    }
  }
};

template <class Code>
[[maybe_unused]] inline void float_codes(const StripRescale& rule, const int32_t* acc, Code* codes) {
  for (int i = 0; i < kStrip; ++i) {
    float value = static_cast<float>(acc[i]) * rule.factor[i];
    value = value > rule.least ? value : rule.least;
    value = value < rule.most ? value : rule.most;
    codes[i] = static_cast<Code>(static_cast<int32_t>(std::nearbyint(value)) + rule.zero_point);
  }
}

// x << left saturates; SRDHM needs the low 32 bits only, so a logical shift does; RDPOT in int32.
template <class Code>
[[maybe_unused]] inline void double_codes(const StripRescale& rule, const int32_t* acc, Code* codes) {
  for (int i = 0; i < kStrip; ++i) {
    const int32_t x = acc[i], left = rule.left[i], right = rule.right[i];
    const auto moved = static_cast<int32_t>(static_cast<uint32_t>(x) << left);
    const int32_t shifted = moved >> left == x ? moved : x < 0 ? INT32_MIN : INT32_MAX;
    const int64_t product = int64_t{shifted} * rule.multiplier[i] + (int64_t{1} << 30);
    const auto high = static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(product) >> 31));
    const auto mask = static_cast<int32_t>((uint32_t{1} << right) - 1);
    int32_t value = (high >> right) + ((high & mask) > (mask >> 1) + (high < 0 ? 1 : 0) ? 1 : 0);
    value = value > rule.low ? value : rule.low;
    value = value < rule.high ? value : rule.high;
    codes[i] = static_cast<Code>(value + rule.zero_point);
  }
}

// The arithmetic shift to the right as a logical one of a number that 2^63 has made positive.
template <class Code>
[[maybe_unused]] inline void single_codes(const StripRescale& rule, const int32_t* acc, Code* codes) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  for (int i = 0; i < kStrip; ++i) {
    const uint64_t distance = rule.distance[i];
    const auto product = static_cast<uint64_t>(int64_t{acc[i]} * rule.multiplier[i]);
    const uint64_t moved = (product + kTop + (uint64_t{1} << (distance - 1))) >> distance;
    auto value = static_cast<int64_t>(moved - (kTop >> distance));
    value = value > rule.low ? value : rule.low;
    value = value < rule.high ? value : rule.high;
    codes[i] = static_cast<Code>(static_cast<int32_t>(value) + rule.zero_point);
  }
}

template <class Code>
[[maybe_unused]] inline void away_codes(const StripRescale& rule, const int32_t* acc, Code* codes) {
  for (int i = 0; i < kStrip; ++i) {
    const uint64_t distance = rule.distance[i];
    const int64_t product = int64_t{acc[i]} * rule.multiplier[i];
    const auto size = static_cast<uint64_t>(product < 0 ? -product : product);
    const auto magnitude = static_cast<int64_t>((size + (uint64_t{1} << (distance - 1))) >> distance);
    int64_t value = product < 0 ? -magnitude : magnitude;
    value = value > rule.low ? value : rule.low;
    value = value < rule.high ? value : rule.high;
    codes[i] = static_cast<Code>(static_cast<int32_t>(value) + rule.zero_point);
  }
}

template <class Code>
[[maybe_unused]] inline void fixed_codes(const StripRescale& rule, const int32_t* acc, Code* codes) {
  switch (rule.kind) {
    case Rescale::kDouble:
      return double_codes(rule, acc, codes);
    case Rescale::kSingle:
      return single_codes(rule, acc, codes);
    default:
      return away_codes(rule, acc, codes);
  }
}

// lhs and rhs are stored codes; the result may be either of them.
[[maybe_unused]] inline void add_strips(const SumRule& rule, const uint8_t* lhs, const uint8_t* rhs,
                                        uint8_t* codes) {
  if (rule.kind != SumRule::kFloatSum) {
    for (int i = 0; i < kStrip; ++i) codes[i] = summed(rule, lhs[i], rhs[i]);
    return;
  }
  const auto left = static_cast<float>(rule.lhs), right = static_cast<float>(rule.rhs);
  const auto fixed = static_cast<float>(rule.fixed);
  const auto least = static_cast<float>(rule.low - rule.output_shift);
  const auto most = static_cast<float>(rule.high - rule.output_shift);
  const auto lhs_shift = static_cast<int32_t>(rule.lhs_shift),
             rhs_shift = static_cast<int32_t>(rule.rhs_shift);
  const auto shift = static_cast<int32_t>(rule.output_shift);
  uint8_t result[kStrip];
  for (int i = 0; i < kStrip; ++i) {
    const auto a = static_cast<float>(lhs[i] - lhs_shift), b = static_cast<float>(rhs[i] - rhs_shift);
    float value = std::fma(a, left, std::fma(b, right, fixed));
    value = value > least ? value : least;
    value = value < most ? value : most;
    result[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(value)) + shift);
  }
  std::memcpy(codes, result, sizeof result);
}

// The first `count` of 16 codes; nothing beyond is touched.
[[maybe_unused]] inline void move_codes(const uint8_t* source, int64_t count, uint8_t* target) {
  if (count >= kStrip) {
    std::memcpy(target, source, kStrip);
    return;
  }
  int64_t done = 0;
  if (count & 8) std::memcpy(target, source, 8), done = 8;
  if (count & 4) std::memcpy(target + done, source + done, 4), done += 4;
  if (count & 2) std::memcpy(target + done, source + done, 2), done += 2;
  if (count & 1) target[done] = source[done];
}

}  // namespace
}  // namespace calib8::engine
