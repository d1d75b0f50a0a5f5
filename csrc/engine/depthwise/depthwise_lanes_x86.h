// depthwise_lanes.h in vectors of 16, 32 or 64 channels of x86.
#pragma once

#if defined(__AVX512VNNI__)
#include "lanes_avx512.h"
#else
#include "lanes_avx2.h"
#endif

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define CALIB8_DOT_PRODUCTS 1
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Says that a value lives in a register, so that compilers do not load it again for every use. With 16
// registers they know better.
template <class Ints>
[[gnu::always_inline]] inline void stay_loaded([[maybe_unused]] Ints& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#endif
}

// The codes of four taps, and four weights, of one quarter of the channels.
#if defined(CALIB8_DOT_PRODUCTS)
template <class L>
struct Codes {
  typename L::Ints bytes;
  static Codes of(typename L::Ints bytes) { return {bytes}; }
  Codes loaded() const {
    Codes copy = *this;
    stay_loaded(copy.bytes);
    return copy;
  }
};
template <class L>
using Weights = Codes<L>;

template <class L>
[[gnu::always_inline]] inline typename L::Ints dot(typename L::Ints acc, const Codes<L>& codes,
                                                   const Weights<L>& weights) {
  return L::dot(acc, codes.bytes, weights.bytes);
}
#else
// Without a dot product of bytes: taps 0 and 2, 1 and 3 as pairs of int16, whose products are exact.
template <class L>
struct Codes {
  typename L::Ints even, odd;
  static Codes of(typename L::Ints bytes) { return {L::low_half(bytes), L::high_half(bytes)}; }
};
template <class L>
struct Weights {
  typename L::Ints even, odd;
  static Weights of(typename L::Ints bytes) {
    return {L::signed_low_half(bytes), L::signed_high_half(bytes)};
  }
  const Weights& loaded() const { return *this; }
};

template <class L>
[[gnu::always_inline]] inline typename L::Ints dot(typename L::Ints acc, const Codes<L>& codes,
                                                   const Weights<L>& weights) {
  acc = L::add32(acc, L::multiply_add16(codes.even, weights.even));
  acc = L::add32(acc, L::multiply_add16(codes.odd, weights.odd));
  asm("" : "+x"(acc));  // compilers that put off the additions run out of registers
  return acc;
}
#endif

// Four vectors of bytes interleaved: the quarters of all channels. `Kind` is Codes or Weights.
template <class Kind>
struct Quarters {
  Kind of[4];
};

// One quarter of quads that lie side by side: in registers where there are 32 of them, else left in memory.
template <class L, int count>
struct Registers {
#if defined(__AVX512F__)
  Registers(const Quarters<Codes<L>>* quads, int i) {
    for (int c = 0; c < count; ++c) codes[c] = quads[c].of[i].loaded();
  }
  [[gnu::always_inline]] const Codes<L>& operator[](int c) const { return codes[c]; }
  Codes<L> codes[count];
#else
  Registers(const Quarters<Codes<L>>* quads, int i) : first(quads), quarter(i) {}
  const Codes<L>& operator[](int c) const { return first[c].of[quarter]; }
  const Quarters<Codes<L>>* first;
  int quarter;
#endif
};

template <class L, class Kind>
[[gnu::always_inline]] inline Quarters<Kind> interleave(typename L::Ints a, typename L::Ints b,
                                                        typename L::Ints c, typename L::Ints d) {
  const typename L::Ints low_ab = L::low8(a, b), high_ab = L::high8(a, b);
  const typename L::Ints low_cd = L::low8(c, d), high_cd = L::high8(c, d);
  return {{Kind::of(L::low16(low_ab, low_cd)), Kind::of(L::high16(low_ab, low_cd)),
           Kind::of(L::low16(high_ab, high_cd)), Kind::of(L::high16(high_ab, high_cd))}};
}

// A bias for codes as `Codes` has them: stored ones.
template <class L>
inline typename L::Ints bias_of_codes(typename L::Ints bias, const Quarters<Weights<L>>*, int64_t, int) {
  return bias;
}

}  // namespace
}  // namespace calib8::engine
