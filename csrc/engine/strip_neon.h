// Sums of 16 channels as codes, in registers of Arm: every rule, with the function behind the layer.
//
//   float    scvtf, fmul, fcvtns                        single   sqshl, sqdmulh, srshl
//   double   sqshl, sqrdmulh, and, ssra, srshl          away     in 64 bits (lanes_fixed_neon.h)
//
// sqrdmulh is SRDHM, srshl adds the half that it shifts out; ties of double go away from zero because one is
// taken from what is below 0 first. sqdmulh drops what lies below 2^31, and to drop it before the half is
// added changes nothing, as long as at least one more bit is shifted: so single shifts one bit further to the
// left where it would not. What a shift to the left saturates saturates in the code as well, for multipliers
// are 0 or at least 2^30. Everything here has internal linkage.
#pragma once

#include "lanes_fixed.h"
#include "steps.h"
#include "strip_activation.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The constants of a curve; a row of 32 words is 64 bytes, as many as one table instruction reaches.
struct CurveRegisters {
  uint8x16x4_t value, slope, bend;
  int16x8_t least, most, below, above, left, right;

  CurveRegisters(const Activation& curve, const Memory& memory) {
    if (curve.kind != Activation::kCurve) return;
    const auto* rows = memory.constant<uint8_t>(curve.segments);
    value = vld1q_u8_x4(rows), slope = vld1q_u8_x4(rows + 64), bend = vld1q_u8_x4(rows + 128);
    least = all(curve.least()), most = all(curve.most());
    below = all(curve.below), above = all(curve.above);
    left = all(15 - curve.shift), right = all(-curve.shift);
  }
  static int16x8_t all(int64_t number) { return vdupq_n_s16(static_cast<int16_t>(number)); }

  // Steps to codes, before they saturate at 8 bits.
  int16x8_t operator()(int16x8_t v) const {
    const int16x8_t u = vminq_s16(vmaxq_s16(v, least), most), none = vdupq_n_s16(0);
    const int16x8_t d = vandq_s16(vshlq_s16(u, left), vdupq_n_s16(0x7fff));
    const int16x8_t place = vandq_s16(vshlq_s16(u, right), vdupq_n_s16(31));
    const uint8x16_t bytes = vreinterpretq_u8_s16(vmlaq_n_s16(vdupq_n_s16(0x0100), place, 0x0202));
    const auto picked = [&](const uint8x16x4_t& row) { return vreinterpretq_s16_u8(vqtbl4q_u8(row, bytes)); };
    const int16x8_t bent = vaddq_s16(vqrdmulhq_s16(picked(bend), d), picked(slope));
    const int16x8_t t = vqaddq_s16(picked(value), vqrdmulhq_s16(bent, d));
    const int16x8_t far = vqsubq_s16(v, u);
    const int16x8_t up = vqrdmulhq_s16(vmaxq_s16(far, none), above);
    const int16x8_t down = vqrdmulhq_s16(vminq_s16(far, none), below);
    return vshrq_n_s16(vqaddq_s16(t, vaddq_s16(up, down)), Activation::kFractionBits);
  }
};

// Numbers of 16 channels that are rescaled: whole ones, right up to 16 bits, where packing saturates them.
// With `sides`, sums below 0 have factors of their own.
template <int64_t kKind, bool sides>
class StripSteps {
  static constexpr int kSides = sides ? 2 : 1;

 public:
  StripSteps(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel) {
    take(0, memory, rule.factor, rule.shift, channel);
    if constexpr (sides) take(1, memory, activation.negative, activation.negative_shift, channel);
  }

  [[gnu::always_inline]] Ints operator()(Ints acc, int i) const {
    const auto of = [&](const Ints(&constants)[kSides][4]) __attribute__((always_inline)) {
      if constexpr (sides) return V::by_sign32(acc, constants[0][i], constants[1][i]);
      return constants[0][i];
    };
    if constexpr (kKind == Rescale::kFloat) {
      return V::rounded(V::multiply(V::floats(acc), V::bits(of(factor_))));
    } else if constexpr (kKind == Rescale::kDouble) {
      const Ints by = of(right_), x = vqrdmulhq_s32(vqshlq_s32(acc, of(left_)), of(factor_));
      return vrshlq_s32(vsraq_n_s32(x, vandq_s32(x, by), 31), by);
    } else if constexpr (kKind == Rescale::kSingle) {
      return vrshlq_s32(vqdmulhq_s32(vqshlq_s32(acc, of(left_)), of(factor_)), of(right_));
    } else {
      return multiply_away(acc, of(factor_), of(left_));
    }
  }

 private:
  // `right` as shifts to the left, below 0.
  void take(int side, const Memory& memory, int64_t factors, int64_t shifts, int64_t channel) {
    const int32_t* factor = memory.constant<int32_t>(factors) + channel;
    for (int i = 0; i < 4; ++i) factor_[side][i] = vld1q_s32(factor + 4 * i);
    if constexpr (kKind == Rescale::kFloat) return;
    const int32_t* shift = memory.constant<int32_t>(shifts) + channel;
    constexpr int32_t kLess = kKind == Rescale::kSingle ? 1 : 0;
    for (int i = 0; i < 4; ++i) {
      const Ints s = vld1q_s32(shift + 4 * i);
      left_[side][i] = kKind == Rescale::kAway ? s : vmaxq_s32(vaddq_s32(s, V::all(kLess)), V::zero());
      right_[side][i] = vminq_s32(s, V::all(-kLess));
    }
  }

  Ints factor_[kSides][4], left_[kSides][4], right_[kSides][4];
};

// What follows the rescaled numbers of 16 channels: their zero point and the clamp, or the curve.
struct StripEnd {
  Ints zero, low, high;

  explicit StripEnd(const Rescale& rule)
      : zero(V::set16(static_cast<int32_t>(rule.zero_point))),
        low(V::set8(static_cast<int32_t>(rule.low))),
        high(V::set8(static_cast<int32_t>(rule.high))) {}
  [[gnu::always_inline]] Ints codes(Ints first, Ints other) const {
    return V::clamp8(V::pack16(V::add16(first, zero), V::add16(other, zero)), low, high);
  }
  [[gnu::always_inline]] Ints codes(const CurveRegisters& curve, Ints first, Ints other) const {
    const Ints bytes = V::pack16(V::ints(curve(V::s16(first))), V::ints(curve(V::s16(other))));
    return V::clamp8(bytes, low, high);
  }
};

// call(kind) with the kind of a rule as a constant.
template <class Call>
[[gnu::always_inline]] inline void with_kind(const Rescale& rule, const Call& call) {
  switch (rule.kind) {
    case Rescale::kFloat:
      return call(std::integral_constant<int64_t, Rescale::kFloat>{});
    case Rescale::kDouble:
      return call(std::integral_constant<int64_t, Rescale::kDouble>{});
    case Rescale::kSingle:
      return call(std::integral_constant<int64_t, Rescale::kSingle>{});
    default:
      return call(std::integral_constant<int64_t, Rescale::kAway>{});
  }
}

// `Fixed` of a set of conv_tiles.h, for float rules too.
class NeonStrip {
 public:
  NeonStrip(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : rule_(rule), activation_(activation), memory_(memory), channel_(channel) {}

  template <class Call>
  static void around(const Call& call) {
    call();
  }
  bool taken() const { return rule_.kind != Rescale::kNone; }

  // Codes of `pixels` pixels, whose sums lie `stride` apart.
  void rows(const CurveRegisters& curve, const int32_t* acc, int64_t stride, int64_t pixels,
            const StripTarget& target) const {
    const StripEnd end(rule_);
    with_kind(rule_, [&](auto kind) {
      if (activation_.kind == Activation::kTwoSided) {
        const StripSteps<kind, true> steps(rule_, activation_, memory_, channel_);
        each(steps, acc, stride, pixels, target, [&](Ints a, Ints b) { return end.codes(a, b); });
        return;
      }
      const StripSteps<kind, false> steps(rule_, activation_, memory_, channel_);
      if (activation_.kind == Activation::kCurve) {
        each(steps, acc, stride, pixels, target, [&](Ints a, Ints b) { return end.codes(curve, a, b); });
      } else {
        each(steps, acc, stride, pixels, target, [&](Ints a, Ints b) { return end.codes(a, b); });
      }
    });
  }

 private:
  template <class Steps, class End>
  [[gnu::always_inline]] static void each(const Steps& steps, const int32_t* acc, int64_t stride,
                                          int64_t pixels, const StripTarget& target, const End& end) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel, acc += stride) {
      const Ints first = V::pack32(steps(vld1q_s32(acc), 0), steps(vld1q_s32(acc + 4), 1));
      const Ints other = V::pack32(steps(vld1q_s32(acc + 8), 2), steps(vld1q_s32(acc + 12), 3));
      uint8_t* to = target.first + (target.offsets == nullptr ? pixel * kStrip : target.offsets[pixel]);
      if (__builtin_expect(target.channels == kStrip, 1)) {
        V::store(to, end(first, other));
      } else {
        V::store_some(to, end(first, other), target.channels);
      }
    }
  }

  const Rescale& rule_;
  const Activation& activation_;
  const Memory& memory_;
  int64_t channel_;
};

}  // namespace
}  // namespace calib8::engine
