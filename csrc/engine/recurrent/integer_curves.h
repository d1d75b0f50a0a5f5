// Sigmoid and Tanh of integer_functions.h over vectors of 16-bit numbers, with the same bits: pmulhrsw is the
// product of its formulas, and no product has two factors of −2^15. Choices are masks of all bits or none.
#pragma once

#include "integer_functions.h"
#include "lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// All bits where a word is negative.
inline Words below_zero(Words a) { return V::right16<15>(a); }
inline Words inverted(Words a) { return V::xor_bits(a, V::set16(-1)); }
inline Words chosen(Words mask, Words where_set, Words otherwise) {
  return V::xor_bits(otherwise, V::and_bits(V::xor_bits(where_set, otherwise), mask));
}
inline Words with_sign_of(Words size, Words mask) { return V::subtract16(V::xor_bits(size, mask), mask); }

// −|a|
inline Words at_most_zero(Words a) { return with_sign_of(a, inverted(below_zero(a))); }

inline Words polynomial_words(Words x) {
  const Words y = V::wrap_add16(x, V::set16(1 << 12)), square = V::parts16(y, y);
  const Words quarter = V::right16<2>(V::wrap_add16(V::parts16(square, square), V::set16(2)));
  const Words cubic = V::wrap_add16(quarter, V::parts16(square, y));
  const Words rest = V::wrap_add16(V::parts16(cubic, V::set16(kThird)), square);
  const Words rounded = V::wrap_add16(V::wrap_add16(rest, V::set16(1)), below_zero(rest));
  const Words inner = V::wrap_add16(y, V::right16<1>(rounded)), factor = V::set16(kExpOfEighth);
  return V::add16(factor, V::parts16(inner, factor));
}

// One factor of an exponential: where bit `i` of the steps is set.
template <int bits, int i>
inline Words with_factor(Words result, Words steps) {
  constexpr int kPower = kLeastPowerOfTwo + i;
  if constexpr (i < kPowersOfTwo && kPower < bits) {
    const Words is_set = below_zero(V::left16<bits - kPower>(steps));
    const Words product = V::parts16(result, V::set16(kExponentials[i]));
    return with_factor<bits, i + 1>(chosen(is_set, product, result), steps);
  } else {
    return result;
  }
}

// exp(v) of v ≤ 0 with so many integer bits; `negative` where v is not 0.
template <int bits>
inline Words exponential_words(Words v, Words negative) {
  constexpr int kFraction = 15 - bits, kQuarter = 1 << (kFraction - 2);
  const Words rest = V::subtract16(V::and_bits(v, V::set16(kQuarter - 1)), V::set16(kQuarter));
  const Words steps = V::wrap_add16(V::wrap_add16(rest, inverted(v)), V::set16(1));  // −2^15 − … wraps
  Words result = with_factor<bits, 0>(polynomial_words(V::left16<bits>(rest)), steps);
  if constexpr (bits > 5) {
    const Words tiny = below_zero(V::wrap_add16(v, V::set16(1 << (kFraction + 5))));
    result = V::and_bits(result, inverted(tiny));
  }
  return chosen(negative, result, V::set16(kWordOne));
}

// 2 / (1 + e) in Q2.13.
inline Words inverse_words(Words e) {
  const Words half = V::wrap_add16(V::right16<1>(e), V::set16(1 << 14));
  Words x = V::wrap_add16(V::set16(kInverseStart), V::parts16(half, V::set16(kInverseSlope)));
  for (int i = 0; i < 3; ++i) {
    const Words error = V::subtract16(V::set16(1 << 13), V::parts16(half, x));
    x = V::wrap_add16(x, V::left16<2>(V::parts16(x, error)));
  }
  return x;
}

inline Words sigmoid_words(Words a) {
  const Words v = at_most_zero(a), negative = below_zero(v);
  const Words inverse = inverse_words(exponential_words<kGateBits>(v, negative));
  const Words above = V::add16(inverse, inverse);
  const Words value = V::xor_bits(above, V::and_bits(below_zero(a), V::set16(kWordOne)));
  return chosen(negative, value, V::set16(1 << 14));
}

template <int bits>
inline Words tanh_words(Words a) {
  const Words v = at_most_zero(a), negative = below_zero(v);
  const Words inverse = inverse_words(exponential_words<bits + 1>(v, negative));
  const Words part = V::subtract16(inverse, V::set16(1 << 13)), twice = V::add16(part, part);
  return V::and_bits(with_sign_of(V::add16(twice, twice), below_zero(a)), negative);
}

constexpr int64_t kWords = kWidth / 2;

template <int bits>
void tanh_of_words(int16_t* to, const int16_t* from, int64_t words) {
  for (int64_t i = 0; i < words; i += kWords) V::store(to + i, tanh_words<bits>(V::load(from + i)));
}

inline void tanh_with(int16_t* to, const int16_t* from, int bits, int64_t words) {
  switch (bits) {
    case 0:
      return tanh_of_words<0>(to, from, words);
    case 1:
      return tanh_of_words<1>(to, from, words);
    case 2:
      return tanh_of_words<2>(to, from, words);
    case 3:
      return tanh_of_words<3>(to, from, words);
    case 4:
      return tanh_of_words<4>(to, from, words);
    case 5:
      return tanh_of_words<5>(to, from, words);
    default:
      return tanh_of_words<6>(to, from, words);
  }
}

}  // namespace
}  // namespace calib8::engine
