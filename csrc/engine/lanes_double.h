// Numbers of float64 in pairs of vectors, as many as there are of 32 bits in one: sums and products of 16-bit
// codes with fixed-point factors, which fit neither int32 nor float32.
//
// Everything here has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <cmath>

#include "lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Halves()(acc, factors): the largest whole numbers that are not larger than 2 · acc · factor + 1, so that
// those of acc · factor + 1/2 are half of them; of products below 2^29. Numbers near 1.5 · 2^51 have one bit
// behind the point, and what is rounded down to them needs no conversion: the lower 32 bits are the result.
// Only AVX-512 rounds down by instruction, others within rounding_down.
constexpr double kHalvesStart = 3377699720527872.5;

#if defined(__AVX512BW__)

template <class Call>
[[gnu::always_inline]] inline void rounding_down(const Call& call) {
  call();
}

struct Doubles {
  __m512d first, second;
};
inline Doubles doubles(Ints a) {
  return {_mm512_cvtepi32_pd(V::half(a, 0)), _mm512_cvtepi32_pd(V::half(a, 1))};
}
inline Doubles all_double(double a) { return {_mm512_set1_pd(a), _mm512_set1_pd(a)}; }
inline Doubles multiply(Doubles a, Doubles b) {
  return {_mm512_mul_pd(a.first, b.first), _mm512_mul_pd(a.second, b.second)};
}
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
  return {_mm512_fmadd_pd(a.first, b.first, c.first), _mm512_fmadd_pd(a.second, b.second, c.second)};
}
inline Doubles clamped(Doubles a, Doubles low, Doubles high) {
  return {_mm512_min_pd(_mm512_max_pd(a.first, low.first), high.first),
          _mm512_min_pd(_mm512_max_pd(a.second, low.second), high.second)};
}
// The largest whole numbers that are not larger; of what fits int32.
inline Ints floors(Doubles a) {
  constexpr int kDownwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  return V::joined(_mm512_cvt_roundpd_epi32(a.first, kDownwards),
                   _mm512_cvt_roundpd_epi32(a.second, kDownwards));
}

// acc · factor + 1/2, of which `floors` makes the nearest whole numbers: what rounds down lets no number fall
// below a whole one, or rise to it.
inline Doubles single_products(Ints acc, const double* factors) {
  constexpr int kDownwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const __m512d half = _mm512_set1_pd(0.5);
  const Doubles sums = doubles(acc);
  return {_mm512_fmadd_round_pd(sums.first, _mm512_loadu_pd(factors), half, kDownwards),
          _mm512_fmadd_round_pd(sums.second, _mm512_loadu_pd(factors + 8), half, kDownwards)};
}

struct Halves {
  __m512d start = _mm512_set1_pd(kHalvesStart);
  Ints even = _mm512_loadu_si512(kEven);

  static constexpr int32_t kEven[16] = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};

  [[gnu::always_inline]] Ints operator()(Ints acc, const double* factors) const {
    constexpr int kDownwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    const Doubles sums = doubles(acc);
    const __m512d first = _mm512_fmadd_round_pd(sums.first, _mm512_loadu_pd(factors), start, kDownwards);
    const __m512d other = _mm512_fmadd_round_pd(sums.second, _mm512_loadu_pd(factors + 8), start, kDownwards);
    return _mm512_permutex2var_epi32(_mm512_castpd_si512(first), even, _mm512_castpd_si512(other));
  }
};

// The whole numbers for one factor, multiplier / 2^right, of acc up to 2^33 and multipliers up to 2^30.
struct ExactFloor {
  Doubles factor, half = all_double(0.5);

  ExactFloor(int64_t multiplier, int64_t right)
      : factor(all_double(std::ldexp(static_cast<double>(multiplier), -static_cast<int>(right)))) {}
  [[gnu::always_inline]] Ints operator()(Doubles acc, Doubles low, Doubles high) const {
    constexpr int kDownwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    const Doubles value{_mm512_fmadd_round_pd(acc.first, factor.first, half.first, kDownwards),
                        _mm512_fmadd_round_pd(acc.second, factor.second, half.second, kDownwards)};
    return floors(clamped(value, low, high));
  }
};

#else

struct Doubles {
  __m256d first, second;
};
inline Doubles doubles(Ints a) {
  return {_mm256_cvtepi32_pd(V::lane(a, 0)), _mm256_cvtepi32_pd(V::lane(a, 1))};
}
inline Doubles all_double(double a) { return {_mm256_set1_pd(a), _mm256_set1_pd(a)}; }
inline Doubles multiply(Doubles a, Doubles b) {
  return {_mm256_mul_pd(a.first, b.first), _mm256_mul_pd(a.second, b.second)};
}
inline Doubles multiply_add(Doubles a, Doubles b, Doubles c) {
  return {_mm256_fmadd_pd(a.first, b.first, c.first), _mm256_fmadd_pd(a.second, b.second, c.second)};
}
inline Doubles clamped(Doubles a, Doubles low, Doubles high) {
  return {_mm256_min_pd(_mm256_max_pd(a.first, low.first), high.first),
          _mm256_min_pd(_mm256_max_pd(a.second, low.second), high.second)};
}
inline Ints floors(Doubles a) {
  const __m128i first = _mm256_cvttpd_epi32(_mm256_floor_pd(a.first));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first),
                                 _mm256_cvttpd_epi32(_mm256_floor_pd(a.second)), 1);
}

// call() while results are rounded down. What it calls is not inlined: no compiler knows that arithmetic
// depends on it.
template <class Call>
[[gnu::always_inline]] inline void rounding_down(const Call& call) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~static_cast<unsigned>(_MM_ROUND_MASK)) | _MM_ROUND_DOWN);
  call();
  _mm_setcsr(before);
}

struct Halves {
  [[gnu::always_inline]] Ints operator()(Ints acc, const double* factors) const {
    const __m256d start = _mm256_set1_pd(kHalvesStart);
    const Doubles sums = doubles(acc);
    const __m256d first = _mm256_fmadd_pd(sums.first, _mm256_loadu_pd(factors), start);
    const __m256d other = _mm256_fmadd_pd(sums.second, _mm256_loadu_pd(factors + 4), start);
    const __m256 lower = _mm256_shuffle_ps(_mm256_castpd_ps(first), _mm256_castpd_ps(other), 0x88);
    return _mm256_permute4x64_epi64(_mm256_castps_si256(lower), 0xD8);
  }
};

// The number is rounded to the nearest one, which may be the next whole one n; whether it lies below n is the
// sign of acc·upper + (1/2 − n) + acc·lower, for acc·upper + (1/2 − n) is exact where that is in doubt: with
// 20 bits of the multiplier, and near −acc·lower.
struct ExactFloor {
  Doubles factor, upper, lower;
  __m256d half = _mm256_set1_pd(0.5);

  ExactFloor(int64_t multiplier, int64_t right)
      : factor(scaled(multiplier, right)),
        upper(scaled(multiplier - multiplier % kLowerPart, right)),
        lower(scaled(multiplier % kLowerPart, right)) {}
  [[gnu::always_inline]] Ints operator()(Doubles acc, Doubles low, Doubles high) const {
    return floors(clamped({floor_of(acc.first), floor_of(acc.second)}, low, high));
  }

 private:
  static constexpr int64_t kLowerPart = 1 << 10;
  static Doubles scaled(int64_t multiplier, int64_t right) {
    return all_double(std::ldexp(static_cast<double>(multiplier), -static_cast<int>(right)));
  }
  [[gnu::always_inline]] __m256d floor_of(__m256d acc) const {
    const __m256d found = _mm256_floor_pd(_mm256_fmadd_pd(acc, factor.first, half));
    const __m256d rest = _mm256_fmadd_pd(acc, upper.first, _mm256_sub_pd(half, found));
    const __m256d below =
        _mm256_cmp_pd(_mm256_fmadd_pd(acc, lower.first, rest), _mm256_setzero_pd(), _CMP_LT_OQ);
    return _mm256_sub_pd(found, _mm256_and_pd(below, _mm256_set1_pd(1.0)));
  }
};

#endif

}  // namespace
}  // namespace calib8::engine
