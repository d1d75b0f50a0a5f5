// Functions behind layers for strips of 16 channels, in every rounding rule: what is not done in registers.
//
// `Set` gives
//   Fixed                                      its vectors for fixed-point rules, or NoFixedStrip
//   Curve                                      the constants of a curve, made of an Activation and Memory
//   float_steps(rule, acc, steps)              a FloatRescale to 16 bits
//   curve_words(curve, steps, low, high, codes)   of 32 steps
//
// Everything here has internal linkage: files of several instruction sets include it.
#pragma once

#include "strip_codes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Where the codes of a strip go: `channels` of 16 for every pixel.
struct StripTarget {
  uint8_t* first;
  const int64_t* offsets;  // per pixel; null: they lie side by side
  int64_t channels;
};

// A set without vectors for fixed-point rules: they are loops.
struct NoFixedStrip {
  NoFixedStrip(const Rescale&, const Activation&, const Memory&, int64_t) {}
  template <class Call>
  static void around(const Call& call) {
    call();
  }
  static constexpr bool taken() { return false; }
  template <class Curve>
  void rows(const Curve&, const int32_t*, int64_t, int64_t, const StripTarget&) const {}
};

// The rescale of a layer up to its codes, or up to the steps of a curve.
[[maybe_unused]] inline Rescale first_rescale(const Rescale& rule, const Activation& activation) {
  if (activation.kind != Activation::kCurve) return rule;
  return {rule.kind, rule.factor, rule.shift, 0, INT16_MIN, INT16_MAX};
}

[[maybe_unused]] inline Rescale negative_rescale(const Rescale& rule, const Activation& activation) {
  if (activation.kind != Activation::kTwoSided) return {Rescale::kNone, -1, -1, 0, 0, 0};
  return {rule.kind, activation.negative, activation.negative_shift, rule.zero_point, rule.low, rule.high};
}

// What a strip's sums become behind an activation.
template <class Set>
class StripActivation {
 public:
  StripActivation(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : kind_(activation.kind),
        low_(static_cast<int32_t>(rule.low)),
        high_(static_cast<int32_t>(rule.high)),
        rescale_(first_rescale(rule, activation), memory, channel),
        negative_(negative_rescale(rule, activation), memory, channel) {}

  // Codes of two pixels.
  void codes(const typename Set::Curve& curve, const int32_t* first, const int32_t* second,
             uint8_t* first_codes, uint8_t* second_codes) const {
    if (kind_ == Activation::kTwoSided) {
      two_sided(first, first_codes);
      two_sided(second, second_codes);
      return;
    }
    alignas(64) int16_t steps[2 * kStrip];
    make_steps(first, steps);
    make_steps(second, steps + kStrip);
    alignas(64) uint8_t both[2 * kStrip];
    Set::curve_words(curve, steps, low_, high_, both);
    std::memcpy(first_codes, both, kStrip);
    std::memcpy(second_codes, both + kStrip, kStrip);
  }
  // … and of one.
  void codes(const typename Set::Curve& curve, const int32_t* acc, uint8_t* result) const {
    uint8_t other[kStrip];
    codes(curve, acc, acc, other, result);
  }

 private:
  void make_steps(const int32_t* acc, int16_t* steps) const {
    if (rescale_.kind == Rescale::kFloat) {
      Set::float_steps(rescale_, acc, steps);
    } else {
      fixed_codes(rescale_, acc, steps);
    }
  }
  // Codes are collected beside the output, whose bytes might be any of what is read here.
  void two_sided(const int32_t* acc, uint8_t* codes) const {
    alignas(16) uint8_t result[kStrip];
    if (rescale_.kind == Rescale::kFloat) {
      for (int i = 0; i < kStrip; ++i) {
        const float factor = acc[i] < 0 ? negative_.factor[i] : rescale_.factor[i];
        float value = static_cast<float>(acc[i]) * factor;
        value = value > rescale_.least ? value : rescale_.least;
        value = value < rescale_.most ? value : rescale_.most;
        result[i] = static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(value)) + rescale_.zero_point);
      }
    } else {
      alignas(32) int16_t above[kStrip], below[kStrip];
      fixed_codes(rescale_, acc, above);
      fixed_codes(negative_, acc, below);
      for (int i = 0; i < kStrip; ++i) result[i] = static_cast<uint8_t>(acc[i] < 0 ? below[i] : above[i]);
    }
    std::memcpy(codes, result, kStrip);
  }

  int64_t kind_;
  int32_t low_, high_;  // clamp of the codes behind a curve
  StripRescale rescale_, negative_;
};

}  // namespace
}  // namespace calib8::engine
