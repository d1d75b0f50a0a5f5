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

// SRDHM(x << left, m), then RDPOT; m ≥ 0. What the shift would lose is cut off.
inline I multiply_double(I x, I multiplier, I shift) {
  const I zero = Lanes::all(0), left = Lanes::max(shift, zero),
          right = Lanes::max(Lanes::sub(zero, shift), zero);
  const I most = Lanes::shift_right_logical(Lanes::all(INT32_MAX), left);
  const I least = Lanes::sub(Lanes::all(-1), most);
  const I shifted = Lanes::shift_left(Lanes::max(Lanes::min(x, most), least), left);
  const Wide product = Lanes::add(Lanes::multiply(shifted, multiplier), Lanes::all_wide(int64_t{1} << 30));
  const I high = Lanes::bits_from_31(product);
  const I mask = Lanes::sub(Lanes::shift_left(Lanes::all(1), right), Lanes::all(1));
  const I half =
      Lanes::sub(Lanes::shift_right_logical(mask, Lanes::all(1)), Lanes::shift_right(high, Lanes::all(31)));
  return Lanes::add_if_greater(Lanes::shift_right(high, right), Lanes::and_(high, mask), half);
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
    const F left = Lanes::to_float(Lanes::sub(a, lhs_shift)),
            right = Lanes::to_float(Lanes::sub(b, rhs_shift));
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
  I lhs_zero, rhs_zero;
  Parameter<float, kEach> lhs, rhs;
  F output;

  DequantizedSums(const AddSums& step, const Memory& memory)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        output(all_float(step.output)) {}
  I operator()(I a, I b, int64_t place) const {
    const F left = Lanes::mul(Lanes::to_float(Lanes::sub(a, lhs_zero)), lhs.at(place));
    const F right = Lanes::mul(Lanes::to_float(Lanes::sub(b, rhs_zero)), rhs.at(place));
    return Lanes::to_int(Lanes::div(Lanes::add(left, right), output));
  }
};

// (a·lhs[c] + b·rhs[c] + 2^(right[c]−1)) >> right[c], in 64 bits
template <bool kEach>
struct AlignedSums {
  I lhs_zero, rhs_zero;
  Parameter<int32_t, kEach> lhs, rhs, right;

  AlignedSums(const AddSums& step, const Memory& memory)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        right(memory, step.right_shift) {}
  I operator()(I a, I b, int64_t place) const {
    const Wide left_product = Lanes::multiply(Lanes::sub(a, lhs_zero), lhs.at(place));
    const Wide right_product = Lanes::multiply(Lanes::sub(b, rhs_zero), rhs.at(place));
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
