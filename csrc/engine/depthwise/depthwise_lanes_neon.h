// depthwise_lanes.h for sets of Arm with dot products. Those of bytes without a sign by bytes with one came
// later: before, codes are taken as signed bytes, x − 128, and 128 · Σ w is in the bias.
#pragma once

#include "lanes_neon.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr int kCodeSign = 0;
#else
constexpr int kCodeSign = 0x80;
#endif

// The codes of four taps, and four weights, of one quarter of the channels.
template <class L>
struct Codes {
  typename L::Ints bytes;
  static Codes of(typename L::Ints bytes) {
    return {kCodeSign == 0 ? bytes : L::xor_bits(bytes, L::set8(kCodeSign))};
  }
};
template <class L>
struct Weights {
  typename L::Ints bytes;
  static Weights of(typename L::Ints bytes) { return {bytes}; }
  const Weights& loaded() const { return *this; }
};

template <class L>
[[gnu::always_inline]] inline typename L::Ints dot(typename L::Ints acc, const Codes<L>& codes,
                                                   const Weights<L>& weights) {
  const int8x16_t w = vreinterpretq_s8_s32(weights.bytes);
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vusdotq_s32(acc, L::u8(codes.bytes), w);
#else
  return vdotq_s32(acc, vreinterpretq_s8_s32(codes.bytes), w);
#endif
}

template <class Kind>
struct Quarters {
  Kind of[4];
};

// One quarter of quads that lie side by side.
template <class L, int count>
struct Registers {
  Registers(const Quarters<Codes<L>>* quads, int i) {
    for (int c = 0; c < count; ++c) codes[c] = quads[c].of[i];
  }
  [[gnu::always_inline]] const Codes<L>& operator[](int c) const { return codes[c]; }
  Codes<L> codes[count];
};

template <class L, class Kind>
[[gnu::always_inline]] inline Quarters<Kind> interleave(typename L::Ints a, typename L::Ints b,
                                                        typename L::Ints c, typename L::Ints d) {
  const typename L::Ints low_ab = L::low8(a, b), high_ab = L::high8(a, b);
  const typename L::Ints low_cd = L::low8(c, d), high_cd = L::high8(c, d);
  return {{Kind::of(L::low16(low_ab, low_cd)), Kind::of(L::high16(low_ab, low_cd)),
           Kind::of(L::low16(high_ab, high_cd)), Kind::of(L::high16(high_ab, high_cd))}};
}

// A bias for codes as `Codes` has them.
template <class L>
inline typename L::Ints bias_of_codes(typename L::Ints bias, const Quarters<Weights<L>>* quads, int64_t count,
                                      int i) {
  if (kCodeSign == 0) return bias;
  typename L::Ints less = L::zero();  // −128 · Σ w
  for (int64_t quad = 0; quad < count; ++quad) {
    less = dot<L>(less, Codes<L>{L::set8(kCodeSign)}, quads[quad].of[i]);
  }
  return L::subtract32(bias, less);
}

}  // namespace
}  // namespace calib8::engine
