// The fixed-point products of lanes_fixed.h where no instruction rounds: numbers of 64 bits at even and odd
// places.
#pragma once

#include "lanes.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Numbers of 64 bits: those of the even and of the odd places.
struct Wide {
  Ints even, odd;
};

inline Wide all_wide(int64_t value) { return {V::set64(value), V::set64(value)}; }
inline Wide wide(Ints v) { return {V::and_bits(v, V::set64(0xFFFFFFFF)), V::odd_to_even(v)}; }  // unsigned
inline Wide multiply_wide(Ints a, Ints b) {
  return {V::even_products(a, b), V::even_products(V::odd_to_even(a), V::odd_to_even(b))};
}
inline Wide multiply_unsigned(Ints a, Ints b) {
  return {V::unsigned_even_products(a, b), V::unsigned_even_products(V::odd_to_even(a), V::odd_to_even(b))};
}
inline Wide add_wide(Wide a, Wide b) { return {V::add64(a.even, b.even), V::add64(a.odd, b.odd)}; }
inline Wide left_wide(Wide v, Wide by) { return {V::left64(v.even, by.even), V::left64(v.odd, by.odd)}; }
inline Wide right_wide(Wide v, Wide by) { return {V::right64(v.even, by.even), V::right64(v.odd, by.odd)}; }
// As int32, saturated.
inline Ints narrow(Wide v) { return V::lower_halves(V::limit64(v.even), V::limit64(v.odd)); }

// RDPOT: x / 2^right, ties away from zero. All shifts take their count from a register: with constants some
// of the AVX2 loops around it were measured 5 % slower.
inline Ints rounding_divide(Ints x, Ints right) {
  const Ints one = V::all(1), mask = V::subtract32(V::left(one, right), one);
  const Ints half = V::subtract32(V::right(mask, one), V::right(x, V::all(31)));
  return V::add_if_greater32(V::right(x, right), V::and_bits(x, mask), half);
}

// SRDHM(x, m), then RDPOT; m is not INT32_MIN, 0 ≤ right.
inline Ints multiply_double_right(Ints x, Ints multiplier, Ints right) {
  const Wide product = add_wide(multiply_wide(x, multiplier), all_wide(int64_t{1} << 30));
  return rounding_divide(V::bits_from_31(product.even, product.odd), right);
}

// The same for shifts of both directions: what a shift to the left would lose is cut off before.
inline Ints multiply_double(Ints x, Ints multiplier, Ints shift) {
  const Ints zero = V::zero(), left = V::max32(shift, zero);
  const Ints most = V::right(V::all(INT32_MAX), left);
  const Ints least = V::subtract32(V::all(-1), most);
  const Ints shifted = V::left(V::max32(V::min32(x, most), least), left);
  return multiply_double_right(shifted, multiplier, V::max32(V::subtract32(zero, shift), zero));
}

// (v + 2^(shift − 1)) >> shift.
inline Wide rounded_right(Wide v, Ints shift) {
  const Wide less = wide(V::subtract32(shift, V::all(1)));
  return right_wide(add_wide(v, left_wide(all_wide(1), less)), wide(shift));
}

inline Ints multiply_single(Ints x, Ints multiplier, Ints shift) {
  return narrow(rounded_right(multiply_wide(x, multiplier), V::subtract32(V::all(31), shift)));
}

// multiply_single of all numbers by one factor, where the results fit int32: |x| · 2^shift < 2^31.
inline Ints multiply_single_by(Ints x, int32_t multiplier, int32_t shift) {
  const Ints factor = V::all(multiplier);
  const Ints right = V::set64(31 - shift), half = V::set64(int64_t{1} << (30 - shift));
  const auto scaled = [&](Ints even) {
    return V::right64(V::add64(V::even_products(even, factor), half), right);
  };
  return V::lower_halves(scaled(x), scaled(V::odd_to_even(x)));
}

inline Ints multiply_away(Ints x, Ints multiplier, Ints shift) {
  const Ints sign = V::sign(V::xor_bits(x, multiplier)), right = V::subtract32(V::all(31), shift);
  const Wide product = multiply_unsigned(V::magnitude32(x), V::magnitude32(multiplier));
  const Ints magnitude = narrow(rounded_right(product, right));
  return V::subtract32(V::xor_bits(magnitude, sign), sign);
}

}  // namespace
}  // namespace calib8::engine
