// The fixed-point products of lanes_fixed.h with the instructions that Arm has for them: sqrdmulh is SRDHM,
// srshl adds the half that it shifts out, sqshl and sqxtn saturate.
#pragma once

#include "lanes.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Numbers of 64 bits: those of the first half of a vector and of the other one.
struct Wide {
  int64x2_t first, other;
};

inline Wide multiply_wide(Ints a, Ints b) {
  return {vmull_s32(vget_low_s32(a), vget_low_s32(b)), vmull_high_s32(a, b)};
}
inline Wide add_wide(Wide a, Wide b) { return {vaddq_s64(a.first, b.first), vaddq_s64(a.other, b.other)}; }
// As int32, saturated.
inline Ints narrow(Wide v) { return vqmovn_high_s64(vqmovn_s64(v.first), v.other); }
// (v + 2^(shift − 1)) >> shift.
inline Wide rounded_right(Wide v, Ints shift) {
  const Ints by = vnegq_s32(shift);
  return {vrshlq_s64(v.first, vmovl_s32(vget_low_s32(by))), vrshlq_s64(v.other, vmovl_high_s32(by))};
}

// RDPOT: x / 2^right, ties away from zero: of what is below 0, one less is rounded.
inline Ints rounding_divide(Ints x, Ints right) {
  const Ints by = vnegq_s32(right);
  return vrshlq_s32(vqaddq_s32(x, V::sign(vandq_s32(x, by))), by);
}

// SRDHM(x, m), then RDPOT; m is not INT32_MIN, 0 ≤ right.
inline Ints multiply_double_right(Ints x, Ints multiplier, Ints right) {
  return rounding_divide(vqrdmulhq_s32(x, multiplier), right);
}

inline Ints multiply_double(Ints x, Ints multiplier, Ints shift) {
  const Ints left = vmaxq_s32(shift, V::zero());
  return multiply_double_right(vqshlq_s32(x, left), multiplier, vsubq_s32(left, shift));
}

inline Ints multiply_single(Ints x, Ints multiplier, Ints shift) {
  return narrow(rounded_right(multiply_wide(x, multiplier), vsubq_s32(V::all(31), shift)));
}
inline Ints multiply_single_by(Ints x, int32_t multiplier, int32_t shift) {
  return multiply_single(x, V::all(multiplier), V::all(shift));
}

// Ties away from zero: of what is below 0, one less is rounded.
inline Ints multiply_away(Ints x, Ints multiplier, Ints shift) {
  const Wide product = multiply_wide(x, multiplier);
  const Wide lowered{vsraq_n_s64(product.first, product.first, 63),
                     vsraq_n_s64(product.other, product.other, 63)};
  return narrow(rounded_right(lowered, vsubq_s32(V::all(31), shift)));
}

}  // namespace
}  // namespace calib8::engine
