// The widest vectors of the instruction set that a file is compiled for: V, with kWidth codes or kLanes
// numbers of 32 bits. Everything has internal linkage, for each instruction set compiles its own.
#pragma once

#include "scratch.h"

#if defined(__AVX512BW__)
#include "lanes_avx512.h"
#elif defined(__aarch64__)
#include "lanes_neon.h"
#else
#include "lanes_avx2.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

#if defined(__AVX512BW__)
constexpr int64_t kWidth = 64;
#elif defined(__aarch64__)
constexpr int64_t kWidth = 16;
#else
constexpr int64_t kWidth = 32;
#endif
constexpr int64_t kLanes = kWidth / 4;
static_assert(kWidth <= kWidestVector && kLanes <= kMostLanes, "more than the scratch memory of their steps");

using V = Lanes<kWidth>;
using Ints = V::Ints;
using Bytes = Ints;  // where they are codes,
using Words = Ints;  // and where they are numbers of 16 bits
using Floats = V::Floats;

inline Ints all_int(int64_t value) { return V::all(static_cast<int32_t>(value)); }
template <class T>
Floats all_float(T value) {
  return V::all(static_cast<float>(value));
}

// Not-a-number gives `low`.
inline Floats clamped(Floats x, Floats low, Floats high) { return V::smaller(V::larger(x, low), high); }

// Codes as Words and Words as Ints by halves of every 128 bits; packed_codes undoes it, with saturation.
inline Words spread_low8(Bytes x) { return V::low8(x, V::zero()); }
inline Words spread_high8(Bytes x) { return V::high8(x, V::zero()); }
inline Ints spread_low16(Words x) { return V::low16(x, V::zero()); }
inline Ints spread_high16(Words x) { return V::high16(x, V::zero()); }
inline Bytes packed_codes(Ints a, Ints b, Ints c, Ints d) {
  return V::pack16(V::pack32(a, b), V::pack32(c, d));
}

// The first `count` bytes, or all.
inline void store_codes(uint8_t* to, Bytes bytes, int64_t count) {
  if (count >= kWidth) {
    V::store(to, bytes);
  } else {
    V::store_some(to, bytes, count);
  }
}

}  // namespace
}  // namespace calib8::engine
