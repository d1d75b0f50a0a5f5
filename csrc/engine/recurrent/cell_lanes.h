// The functions of cell_functions.h over vectors, with the same bits.
#pragma once

#include "cell_functions.h"
#include "lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline Floats magnitude_of(Floats x) { return V::bits(V::and_bits(V::as_ints(x), V::all(INT32_MAX))); }

// Arguments in this order keep what is no number.
inline Floats at_least(Floats x, Floats least) { return V::larger(least, x); }
inline Floats at_most(Floats x, Floats most) { return V::smaller(most, x); }

inline Floats power_of_two(Floats t) {
  t = at_least(t, V::all(kLeastPower));
  const Ints whole = V::rounded(t);
  const Floats rest = V::subtract(t, V::floats(whole));
  Floats power = V::all(kPowers[5]);
  for (int i = 4; i >= 0; --i) power = V::add(V::multiply(power, rest), V::all(kPowers[i]));
  power = V::add(V::multiply(power, rest), V::all(1.0F));
  return V::multiply(power, V::bits(V::left(V::add32(whole, V::all(127)), V::all(23))));
}

// 2^(−|x|·factor)
inline Floats falling_power(Floats x, float factor) {
  const Floats t = V::multiply(magnitude_of(x), V::all(factor));
  return power_of_two(V::bits(V::xor_bits(V::as_ints(t), V::all(INT32_MIN))));
}

inline Floats sigmoid_of(Floats x) {
  const Floats z = falling_power(x, kLog2E), one = V::all(1.0F);
  const Floats upper = V::bits(V::by_sign32(V::as_ints(x), V::as_ints(one), V::as_ints(z)));
  return V::divide(upper, V::add(one, z));
}
inline Floats tanh_of(Floats x) {
  const Floats z = falling_power(x, kTwiceLog2E), one = V::all(1.0F);
  const Floats size = V::divide(V::subtract(one, z), V::add(one, z));
  const Ints sign = V::and_bits(V::as_ints(x), V::all(INT32_MIN));
  return V::bits(V::or_bits(V::as_ints(size), sign));
}
inline Floats line_of(const CellFunction& function, Floats x) {
  return V::add(V::multiply(x, V::all(function.alpha)), V::all(function.beta));
}

inline Floats value_of(const CellFunction& function, Floats x) {
  switch (function.kind) {
    case Recurrent::kSigmoid:
      return sigmoid_of(x);
    case Recurrent::kTanh:
      return tanh_of(x);
    case Recurrent::kRelu:
      return at_least(x, V::all(0.0F));
    case Recurrent::kHardSigmoid:
      return at_most(at_least(line_of(function, x), V::all(0.0F)), V::all(1.0F));
    case Recurrent::kSoftsign:
      return V::divide(x, V::add(V::all(1.0F), magnitude_of(x)));
    case Recurrent::kAffine:
      return line_of(function, x);
    default:
      return V::multiply(V::all(function.alpha), tanh_of(V::multiply(x, V::all(function.beta))));
  }
}

}  // namespace
}  // namespace calib8::engine
