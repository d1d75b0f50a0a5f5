// The rounding rules of elementwise steps over vectors: rules.h for many numbers at once.
//
// A rule is a value: its members stay in registers. It gives int32 numbers to which Finish adds the zero
// point (or, of rules that have it in their formula, the shift from raw to stored codes) before it clamps.
// Those of float32 have `value`, the same before it is rounded; it holds for codes of 16 bits as well.
#pragma once

#include "lanes_fixed.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Nearest, ties to even; what is far above 0 stays so, NaN and what is far below 0 become numbers far below
// 0.
inline Ints to_int(Floats v) {
#if defined(__aarch64__)
  return V::rounded(V::larger(v, all_float(-131072)));  // which saturates
#else
  return V::rounded(V::smaller(all_float(131072), v));  // INT32_MIN
#endif
}

// Nearest, ties away from zero; beyond ±2^17 cut off there.
inline Ints to_int_away(Floats v) {
  return V::rounded_away(clamped(v, all_float(-131072), all_float(131072)));
}

// A parameter: one number, or an array along the last axis.
template <class T, bool kEach>
struct Parameter {
  using Vector = decltype(V::all(T{}));
  const T* values;
  Vector first;

  Parameter(const Memory& memory, int64_t constant)
      : values(memory.constant<T>(constant)), first(V::all(*values)) {}
  Vector at(int64_t place) const {
    if constexpr (kEach) return V::numbers(values + place);
    return first;
  }
};

template <bool kEach>
struct FloatRescale {
  Parameter<float, kEach> factor;

  FloatRescale(const Rescale& rule, const Memory& memory) : factor(memory, rule.factor) {}
  Ints operator()(Ints acc, Ints, int64_t place) const {
    return to_int(V::multiply(V::floats(acc), factor.at(place)));
  }
};

template <int64_t kKind, bool kEach>
struct FixedRescale {
  Parameter<int32_t, kEach> multiplier, shift;

  FixedRescale(const Rescale& rule, const Memory& memory)
      : multiplier(memory, rule.factor), shift(memory, rule.shift) {}
  Ints operator()(Ints acc, Ints, int64_t place) const {
    return multiply_fixed<kKind>(acc, multiplier.at(place), shift.at(place));
  }
};

// rint(fma(A, lhs, fma(B, rhs, fixed)))
template <bool kShifted>
struct FloatSum {
  Ints lhs_shift, rhs_shift;
  Floats lhs, rhs, fixed;

  explicit FloatSum(const SumRule& rule)
      : lhs_shift(all_int(rule.lhs_shift)),
        rhs_shift(all_int(rule.rhs_shift)),
        lhs(all_float(rule.lhs)),
        rhs(all_float(rule.rhs)),
        fixed(all_float(rule.fixed)) {}
  Ints operator()(Ints a, Ints b, int64_t) const { return to_int(value(a, b)); }
  Floats value(Ints a, Ints b) const {
    const Floats left = V::floats(kShifted ? V::subtract32(a, lhs_shift) : a);
    const Floats right = V::floats(kShifted ? V::subtract32(b, rhs_shift) : b);
    return V::multiply_add(left, lhs, V::multiply_add(right, rhs, fixed));
  }
};

// rint(fl(fl(lhs·a) ± fl(rhs·b)) / output)
struct DequantizedSum {
  Ints lhs_zero, rhs_zero;
  Floats lhs, rhs, output;

  explicit DequantizedSum(const SumRule& rule)
      : lhs_zero(all_int(rule.lhs_zero + rule.lhs_shift)),
        rhs_zero(all_int(rule.rhs_zero + rule.rhs_shift)),
        lhs(all_float(rule.lhs)),
        rhs(all_float(rule.negative != 0 ? -rule.rhs : rule.rhs)),
        output(all_float(rule.output)) {}
  Ints operator()(Ints a, Ints b, int64_t) const { return to_int(value(a, b)); }
  Floats value(Ints a, Ints b) const {
    const Floats left = V::multiply(V::floats(V::subtract32(a, lhs_zero)), lhs);
    const Floats right = V::multiply(V::floats(V::subtract32(b, rhs_zero)), rhs);
    return V::divide(V::add(left, right), output);
  }
};

// M(M(a << left_shift, lhs) ± M(b << left_shift, rhs), output)
struct ScaledSum {
  Ints lhs_zero, rhs_zero, left_shift, sign;
  Ints lhs, lhs_exponent, rhs, rhs_exponent, output, output_exponent;

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
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Ints left = multiply_double(V::left(V::subtract32(a, lhs_zero), left_shift), lhs, lhs_exponent);
    const Ints right = multiply_double(V::left(V::subtract32(b, rhs_zero), left_shift), rhs, rhs_exponent);
    const Ints sum = V::add32(left, V::subtract32(V::xor_bits(right, sign), sign));
    return multiply_double(sum, output, output_exponent);
  }
};

// M(d << 20, multiplier) of a code minus its zero point d, for shifts to the right:
//
//   SRDHM(d << 20, m) = (d·m + 2^10) >> 11 = d·(m >> 11) + ((d·(m mod 2^11) + 2^10) >> 11)
struct ScaledCode {
  Ints zero, high, low, right;

  ScaledCode(int64_t zero_point, int64_t multiplier, int64_t exponent)
      : zero(all_int(zero_point)),
        high(all_int(multiplier >> 11)),
        low(all_int(multiplier & 2047)),
        right(all_int(-exponent)) {}
  Ints operator()(Ints code) const {
    const Ints d = V::subtract32(code, zero), rounded = V::add32(V::multiply32(d, low), V::all(1 << 10));
    const Ints product = V::add32(V::multiply32(d, high), V::right<11>(rounded));
    return rounding_divide(product, right);
  }
};

// ScaledSum as lowering makes it: the side with the larger scale (kWide: 0 left, 1 right) counts one half,
// which is exact, and no shift goes to the left.
template <int kWide>
struct HalfScaledSum {
  ScaledCode narrow;
  Ints zero, left_sign, right_sign, output, output_right;

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
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Ints exact = V::left(V::subtract32(kWide == 0 ? a : b, zero), V::all(19));
    const Ints rounded = narrow(kWide == 0 ? b : a);
    const Ints first = V::subtract32(V::xor_bits(exact, left_sign), left_sign);
    const Ints second = V::subtract32(V::xor_bits(rounded, right_sign), right_sign);
    return multiply_double_right(V::add32(first, second), output, output_right);
  }
};

// (a·lhs ± b·rhs + 2^(right_shift−1)) >> right_shift. The products stay below 2^30: what is shifted further
// than 30 bits is 0.
struct AlignedSum {
  Ints lhs_zero, rhs_zero, lhs, rhs, half, right_shift;

  explicit AlignedSum(const SumRule& rule)
      : lhs_zero(all_int(rule.lhs_zero + rule.lhs_shift)),
        rhs_zero(all_int(rule.rhs_zero + rule.rhs_shift)),
        lhs(all_int(rule.right_shift > 30 ? 0 : rule.lhs_multiplier)),
        rhs(all_int(rule.right_shift > 30 ? 0
                    : rule.negative != 0  ? -rule.rhs_multiplier
                                          : rule.rhs_multiplier)),
        half(all_int(int64_t{1} << ((rule.right_shift > 30 ? 30 : rule.right_shift) - 1))),
        right_shift(all_int(rule.right_shift > 30 ? 30 : rule.right_shift)) {}
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Ints left = V::multiply32(V::subtract32(a, lhs_zero), lhs),
               right = V::multiply32(V::subtract32(b, rhs_zero), rhs);
    return V::right(V::add32(V::add32(left, right), half), right_shift);
  }
};

// rint(fl(fl(lhs[c]·a) + fl(rhs[c]·b)) / output)
template <bool kEach>
struct DequantizedSums {
  Ints zero;
  Parameter<float, kEach> lhs, rhs;
  Floats output;

  DequantizedSums(const AddSums& step, const Memory& memory)
      : zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        output(all_float(step.output)) {}
  Ints operator()(Ints a, Ints b, int64_t place) const {
    const Floats left = V::multiply(V::floats(a), lhs.at(place));
    const Floats right = V::multiply(V::floats(V::subtract32(b, zero)), rhs.at(place));
    return to_int(V::divide(V::add(left, right), output));
  }
};

// (a·lhs[c] + b·rhs[c] + 2^(right[c]−1)) >> right[c], in 64 bits
template <bool kEach>
struct AlignedSums {
  Ints zero;
  Parameter<int32_t, kEach> lhs, rhs, right;

  AlignedSums(const AddSums& step, const Memory& memory)
      : zero(all_int(step.rhs_zero)),
        lhs(memory, step.lhs_factor),
        rhs(memory, step.rhs_factor),
        right(memory, step.right_shift) {}
  Ints operator()(Ints a, Ints b, int64_t place) const {
    const Wide left_product = multiply_wide(a, lhs.at(place));
    const Wide right_product = multiply_wide(V::subtract32(b, zero), rhs.at(place));
    return narrow(rounded_right(add_wide(left_product, right_product), right.at(place)));
  }
};

// rint(fl(fl(a·b · factor) + zero point)); a·b is exact in float32, or, of 16-bit codes, rounded once.
struct FloatProduct {
  Ints lhs_zero, rhs_zero;
  Floats factor, zero_point;

  template <class Step>
  explicit FloatProduct(const Step& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        factor(all_float(step.factor)),
        zero_point(all_float(step.zero_point)) {}
  Ints operator()(Ints a, Ints b, int64_t) const { return to_int(value(a, b)); }
  Floats value(Ints a, Ints b) const {
    const Floats left = V::floats(V::subtract32(a, lhs_zero)), right = V::floats(V::subtract32(b, rhs_zero));
    return V::add(V::multiply(V::multiply(left, right), factor), zero_point);
  }
};

// FloatProduct with a right side that has been converted. `kTame`: no product leaves int32.
template <bool kTame>
struct RowProduct {
  Ints lhs_zero;
  Floats factor, zero_point;

  RowProduct(const Mul& step, int64_t zero)
      : lhs_zero(all_int(zero)), factor(all_float(step.factor)), zero_point(all_float(step.zero_point)) {}
  static bool fits(const Mul& step) { return step.factor > -1e3 && step.factor < 1e3; }

  Ints operator()(Ints a, Floats right, int64_t) const {
    const Floats left = V::floats(V::subtract32(a, lhs_zero));
    const Floats value = V::add(V::multiply(V::multiply(left, right), factor), zero_point);
    return kTame ? V::rounded(value) : to_int(value);
  }
};

template <int64_t kKind>
struct FixedProduct {
  Ints lhs_zero, rhs_zero, multiplier, exponent;

  template <class Step>
  explicit FixedProduct(const Step& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        multiplier(all_int(step.multiplier)),
        exponent(all_int(step.exponent)) {}
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Ints acc = V::multiply32(V::subtract32(a, lhs_zero), V::subtract32(b, rhs_zero));
    return multiply_fixed<kKind>(acc, multiplier, exponent);
  }
};

// rint(fl(fl(fl(lhs·a) / divisor[b]) / output)), b a stored code
struct FloatQuotient {
  Ints lhs_zero;
  Floats lhs, output;
  const float* divisor;

  FloatQuotient(const Div& step, const Memory& memory)
      : lhs_zero(all_int(step.lhs_zero)),
        lhs(all_float(step.lhs)),
        output(all_float(step.output)),
        divisor(memory.constant<float>(step.divisor)) {}
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Floats real = V::multiply(V::floats(V::subtract32(a, lhs_zero)), lhs);
    return to_int(V::divide(V::divide(real, V::gathered(divisor, b)), output));
  }
};

// round(fl(fl(acc·input)·factor[c]) / output), ties away from zero
template <bool kEach>
struct RealRescaled {
  Parameter<float, kEach> factor;
  Floats input, output;

  RealRescaled(const RealRescale& step, const Memory& memory)
      : factor(memory, step.factor), input(all_float(step.input)), output(all_float(step.output)) {}
  Ints operator()(Ints acc, Ints, int64_t place) const {
    const Floats real = V::multiply(V::multiply(V::floats(acc), input), factor.at(place));
    return to_int_away(V::divide(real, output));
  }
};

// round(fl(fl(lhs·a) ∘ fl(rhs·b)) / output), ties away from zero, ∘ one of + − ·
template <int64_t kKind>
struct RealPairs {
  Ints lhs_zero, rhs_zero;
  Floats lhs, rhs, output;

  explicit RealPairs(const RealPair& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        lhs(all_float(step.lhs)),
        rhs(all_float(step.rhs)),
        output(all_float(step.output)) {}
  Ints operator()(Ints a, Ints b, int64_t) const {
    const Floats left = V::multiply(V::floats(V::subtract32(a, lhs_zero)), lhs);
    const Floats right = V::multiply(V::floats(V::subtract32(b, rhs_zero)), rhs);
    return to_int_away(V::divide(joined(left, right), output));
  }

 private:
  static Floats joined(Floats a, Floats b) {
    if constexpr (kKind == RealPair::kSum) return V::add(a, b);
    if constexpr (kKind == RealPair::kDifference) return V::subtract(a, b);
    return V::multiply(a, b);
  }
};

// (a·multiplier[b] + 2^(30−shift[b])) >> (31−shift[b])
struct FixedQuotient {
  Ints lhs_zero;
  const int32_t *multiplier, *shift;

  FixedQuotient(const Div& step, const Memory& memory)
      : lhs_zero(all_int(step.lhs_zero)),
        multiplier(memory.constant<int32_t>(step.multiplier)),
        shift(memory.constant<int32_t>(step.shift)) {}
  Ints operator()(Ints a, Ints b, int64_t) const {
    return multiply_single(V::subtract32(a, lhs_zero), V::gathered(multiplier, b), V::gathered(shift, b));
  }
};

}  // namespace
}  // namespace calib8::engine
