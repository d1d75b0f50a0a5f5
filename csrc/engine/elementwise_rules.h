// The rounding rules of elementwise steps over vectors: rules.h for many numbers at once.
//
// Include it behind a header that defines Lanes. A rule is a value: its members stay in registers. It gives
// int32 numbers to which Lanes::store adds the zero point (or, of rules that have it in their formula, the
// shift from raw to stored codes) before it clamps.
#pragma once

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

using I = Lanes::I;
using F = Lanes::F;
using Wide = Lanes::Wide;

// RDPOT: x / 2^right, ties away from zero.
inline I rounding_divide(I x, I right) {
  const I one = Lanes::all(1), mask = Lanes::sub(Lanes::shift_left(one, right), one);
  const I half = Lanes::sub(Lanes::shift_right(mask, one), Lanes::shift_right(x, Lanes::all(31)));
  return Lanes::add_if_greater(Lanes::shift_right(x, right), Lanes::and_(x, mask), half);
}

// SRDHM(x, m), then RDPOT; m ≥ 0, 0 ≤ right.
inline I multiply_double_right(I x, I multiplier, I right) {
  const Wide product = Lanes::multiply(x, multiplier);
  return rounding_divide(Lanes::bits_from_31(Lanes::add(product, Lanes::all_wide(int64_t{1} << 30))), right);
}

// The same for shifts of both directions: what a shift to the left would lose is cut off before.
inline I multiply_double(I x, I multiplier, I shift) {
  const I zero = Lanes::all(0), left = Lanes::max(shift, zero);
  const I most = Lanes::shift_right(Lanes::all(INT32_MAX), left);
  const I least = Lanes::sub(Lanes::all(-1), most);
  const I shifted = Lanes::shift_left(Lanes::max(Lanes::min(x, most), least), left);
  return multiply_double_right(shifted, multiplier, Lanes::max(Lanes::sub(zero, shift), zero));
}

// (v + 2^(right − 1)) >> right, saturated.
inline I rounded_shift(Wide v, I right) {
  const Wide by = Lanes::wide(right), less = Lanes::wide(Lanes::sub(right, Lanes::all(1)));
  return Lanes::narrow(Lanes::shift_right(Lanes::add(v, Lanes::shift_left(Lanes::all_wide(1), less)), by));
}

inline I multiply_single(I x, I multiplier, I shift) {
  return rounded_shift(Lanes::multiply(x, multiplier), Lanes::sub(Lanes::all(31), shift));
}

inline I multiply_away(I x, I multiplier, I shift) {
  const I sign = Lanes::shift_right(x, Lanes::all(31)), right = Lanes::sub(Lanes::all(31), shift);
  const I magnitude = rounded_shift(Lanes::multiply_unsigned(Lanes::abs(x), multiplier), right);
  return Lanes::sub(Lanes::xor_(magnitude, sign), sign);
}

template <int64_t kKind>
I multiply_fixed(I x, I multiplier, I shift) {
  if constexpr (kKind == Rescale::kDouble) return multiply_double(x, multiplier, shift);
  if constexpr (kKind == Rescale::kSingle) return multiply_single(x, multiplier, shift);
  return multiply_away(x, multiplier, shift);
}

// A parameter: one number, or an array along the last axis.
template <class T, bool kEach>
struct Parameter {
  using V = decltype(Lanes::all(T{}));
  const T* values;
  V first;

  Parameter(const Memory& memory, int64_t constant)
      : values(memory.constant<T>(constant)), first(Lanes::all(*values)) {}
  V at(int64_t place) const {
    if constexpr (kEach) return Lanes::load(values + place);
    return first;
  }
};

template <bool kEach>
struct FloatRescale {
  Parameter<float, kEach> factor;

  FloatRescale(const Rescale& rule, const Memory& memory) : factor(memory, rule.factor) {}
  I operator()(I acc, I, int64_t place) const {
    return Lanes::to_int(Lanes::mul(Lanes::to_float(acc), factor.at(place)));
  }
};

template <int64_t kKind, bool kEach>
struct FixedRescale {
  Parameter<int32_t, kEach> multiplier, shift;

  FixedRescale(const Rescale& rule, const Memory& memory)
      : multiplier(memory, rule.factor), shift(memory, rule.shift) {}
  I operator()(I acc, I, int64_t place) const {
    return multiply_fixed<kKind>(acc, multiplier.at(place), shift.at(place));
  }
};

inline I all_int(int64_t value) { return Lanes::all(static_cast<int32_t>(value)); }
inline F all_float(double value) { return Lanes::all(static_cast<float>(value)); }

// rint(fma(A, lhs, fma(B, rhs, fixed)))
template <bool kShifted>
struct FloatSum {
  I lhs_shift, rhs_shift;
  F lhs, rhs, fixed;

  explicit FloatSum(const SumRule& rule)
      : lhs_shift(all_int(rule.lhs_shift)),
        rhs_shift(all_int(rule.rhs_shift)),
        lhs(all_float(rule.lhs)),
        rhs(all_float(rule.rhs)),
        fixed(all_float(rule.fixed)) {}
  I operator()(I a, I b, int64_t) const {
    const F left = Lanes::to_float(kShifted ? Lanes::sub(a, lhs_shift) : a);
    const F right = Lanes::to_float(kShifted ? Lanes::sub(b, rhs_shift) : b);
    return Lanes::to_int(Lanes::fma(left, lhs, Lanes::fma(right, rhs, fixed)));
  }
};

// rint(fl(fl(lhs·a) ± fl(rhs·b)) / output)
struct DequantizedSum {
  I lhs_zero, rhs_zero;
  F lhs, rhs, output;

  explicit DequantizedSum(const SumRule& rule)
      : lhs_zero(all_int(rule.lhs_zero + rule.lhs_shift)),
        rhs_zero(all_int(rule.rhs_zero + rule.rhs_shift)),
        lhs(all_float(rule.lhs)),
        rhs(all_float(rule.negative != 0 ? -rule.rhs : rule.rhs)),
        output(all_float(rule.output)) {}
  I operator()(I a, I b, int64_t) const {
    const F left = Lanes::mul(Lanes::to_float(Lanes::sub(a, lhs_zero)), lhs);
    const F right = Lanes::mul(Lanes::to_float(Lanes::sub(b, rhs_zero)), rhs);
    return Lanes::to_int(Lanes::div(Lanes::add(left, right), output));
  }
};

// M(M(a << left_shift, lhs) ± M(b << left_shift, rhs), output)
struct ScaledSum {
  I lhs_zero, rhs_zero, left_shift, sign;
  I lhs, lhs_exponent, rhs, rhs_exponent, output, output_exponent;

  explicit ScaledSum(const SumRule& rule)
      : lhs_zero(all_int(rule.lhs_zero + rule.lhs_shift)),
        rhs_zero(all_int(rule.rhs_zero + rule.rhs_shift)),
        left_shift(all_int(rule.left_shift)),
        sign(all_int(rule.negative != 0 ? -1 : 0)),
        lhs(all_int(rule.lhs_multiplier)),
        lhs_exponent(all_int(rule.lhs_exponent)),
        rhs(all_int(rule.rhs_multiplier)),
        rhs_exponent(all_int(rule.rhs_exponent)),
        output(all_int(rule.output_multiplier)),
        output_exponent(all_int(rule.output_exponent)) {}
  I operator()(I a, I b, int64_t) const {
    const I left = multiply_double(Lanes::shift_left(Lanes::sub(a, lhs_zero), left_shift), lhs, lhs_exponent);
    const I right =
        multiply_double(Lanes::shift_left(Lanes::sub(b, rhs_zero), left_shift), rhs, rhs_exponent);
    const I sum = Lanes::add(left, Lanes::sub(Lanes::xor_(right, sign), sign));
    return multiply_double(sum, output, output_exponent);
  }
};

// M(d << 20, multiplier) of a code minus its zero point d, for shifts to the right:
//
//   SRDHM(d << 20, m) = (d·m + 2^10) >> 11 = d·(m >> 11) + ((d·(m mod 2^11) + 2^10) >> 11)
struct ScaledCode {
  I zero, high, low, right;

  ScaledCode(int64_t zero_point, int64_t multiplier, int64_t exponent)
      : zero(all_int(zero_point)),
        high(all_int(multiplier >> 11)),
        low(all_int(multiplier & 2047)),
        right(all_int(-exponent)) {}
  I operator()(I code) const {
    const I d = Lanes::sub(code, zero), rounded = Lanes::add(Lanes::mul(d, low), Lanes::all(1 << 10));
    const I product = Lanes::add(Lanes::mul(d, high), Lanes::shift_right(rounded, Lanes::all(11)));
    return rounding_divide(product, right);
  }
};

// ScaledSum as lowering makes it: the side with the larger scale (kWide: 0 left, 1 right) counts one half,
// which is exact, and no shift goes to the left.
template <int kWide>
struct HalfScaledSum {
  ScaledCode narrow;
  I zero, left_sign, right_sign, output, output_right;

  static bool fits(const SumRule& rule) {
    const int64_t multiplier = kWide == 0 ? rule.lhs_multiplier : rule.rhs_multiplier;
    const int64_t exponent = kWide == 0 ? rule.lhs_exponent : rule.rhs_exponent;
    const int64_t other = kWide == 0 ? rule.rhs_exponent : rule.lhs_exponent;
    return rule.left_shift == 20 && multiplier == int64_t{1} << 30 && exponent == 0 && other <= 0 &&
           rule.output_exponent <= 0;
  }
  explicit HalfScaledSum(const SumRule& rule)
      : narrow(kWide == 0
                   ? ScaledCode(rule.rhs_zero + rule.rhs_shift, rule.rhs_multiplier, rule.rhs_exponent)
                   : ScaledCode(rule.lhs_zero + rule.lhs_shift, rule.lhs_multiplier, rule.lhs_exponent)),
        zero(all_int(kWide == 0 ? rule.lhs_zero + rule.lhs_shift : rule.rhs_zero + rule.rhs_shift)),
        left_sign(all_int(kWide == 1 && rule.negative != 0 ? -1 : 0)),
        right_sign(all_int(kWide == 0 && rule.negative != 0 ? -1 : 0)),
        output(all_int(rule.output_multiplier)),
        output_right(all_int(-rule.output_exponent)) {}
  I operator()(I a, I b, int64_t) const {
    const I exact = Lanes::shift_left(Lanes::sub(kWide == 0 ? a : b, zero), Lanes::all(19));
    const I rounded = narrow(kWide == 0 ? b : a);
    const I first = Lanes::sub(Lanes::xor_(exact, left_sign), left_sign);
    const I second = Lanes::sub(Lanes::xor_(rounded, right_sign), right_sign);
    return multiply_double_right(Lanes::add(first, second), output, output_right);
  }
};

// (a·lhs ± b·rhs + 2^(right_shift−1)) >> right_shift. The products stay below 2^30: what is shifted further
// than 30 bits is 0.
struct AlignedSum {
  I lhs_zero, rhs_zero, lhs, rhs, half, right_shift;

  explicit AlignedSum(const SumRule& rule)
      : lhs_zero(all_int(rule.lhs_zero + rule.lhs_shift)),
        rhs_zero(all_int(rule.rhs_zero + rule.rhs_shift)),
        lhs(all_int(rule.right_shift > 30 ? 0 : rule.lhs_multiplier)),
        rhs(all_int(rule.right_shift > 30 ? 0
                    : rule.negative != 0  ? -rule.rhs_multiplier
                                          : rule.rhs_multiplier)),
        half(all_int(int64_t{1} << ((rule.right_shift > 30 ? 30 : rule.right_shift) - 1))),
        right_shift(all_int(rule.right_shift > 30 ? 30 : rule.right_shift)) {}
  I operator()(I a, I b, int64_t) const {
    const I left = Lanes::mul(Lanes::sub(a, lhs_zero), lhs), right = Lanes::mul(Lanes::sub(b, rhs_zero), rhs);
    return Lanes::shift_right(Lanes::add(Lanes::add(left, right), half), right_shift);
  }
};

// rint(fl(fl(lhs[c]·a) + fl(rhs[c]·b)) / output)
template <bool kEach>
struct DequantizedSums {
  I zero;
  Parameter<float, kEach> lhs, rhs;
  F output;

  DequantizedSums(const AddSums& step, const Memory& memory)
      : zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        output(all_float(step.output)) {}
  I operator()(I a, I b, int64_t place) const {
    const F left = Lanes::mul(Lanes::to_float(a), lhs.at(place));
    const F right = Lanes::mul(Lanes::to_float(Lanes::sub(b, zero)), rhs.at(place));
    return Lanes::to_int(Lanes::div(Lanes::add(left, right), output));
  }
};

// (a·lhs[c] + b·rhs[c] + 2^(right[c]−1)) >> right[c], in 64 bits
template <bool kEach>
struct AlignedSums {
  I zero;
  Parameter<int32_t, kEach> lhs, rhs, right;

  AlignedSums(const AddSums& step, const Memory& memory)
      : zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        right(memory, step.right_shift) {}
  I operator()(I a, I b, int64_t place) const {
    const Wide left_product = Lanes::multiply(a, lhs.at(place));
    const Wide right_product = Lanes::multiply(Lanes::sub(b, zero), rhs.at(place));
    return rounded_shift(Lanes::add(left_product, right_product), right.at(place));
  }
};

// rint(fl(fl(a·b · factor) + zero point)); a·b is exact in float32.
struct FloatProduct {
  I lhs_zero, rhs_zero;
  F factor, zero_point;

  explicit FloatProduct(const Mul& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        factor(all_float(step.factor)),
        zero_point(Lanes::all(static_cast<float>(step.zero_point))) {}
  I operator()(I a, I b, int64_t) const {
    const F left = Lanes::to_float(Lanes::sub(a, lhs_zero)), right = Lanes::to_float(Lanes::sub(b, rhs_zero));
    return Lanes::to_int(Lanes::add(Lanes::mul(Lanes::mul(left, right), factor), zero_point));
  }
};

template <int64_t kKind>
struct FixedProduct {
  I lhs_zero, rhs_zero, multiplier, exponent;

  explicit FixedProduct(const Mul& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        multiplier(all_int(step.multiplier)),
        exponent(all_int(step.exponent)) {}
  I operator()(I a, I b, int64_t) const {
    const I acc = Lanes::mul(Lanes::sub(a, lhs_zero), Lanes::sub(b, rhs_zero));
    return multiply_fixed<kKind>(acc, multiplier, exponent);
  }
};

}  // namespace
}  // namespace calib8::engine
