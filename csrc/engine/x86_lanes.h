// Vectors of 16, 32 or 64 channels: rows of codes interleaved, dot products of four taps, sums packed to
// codes.
//
// Unpacking the bytes of four taps puts the channels of a 128-bit lane into four vectors of sums
// ("quarters"): quarter i holds, in lane l, the sums of channels 16·l + 4·i … 16·l + 4·i + 3. Packing undoes
// that order. Everything here has internal linkage, for each instruction set compiles its own.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "split_factors.h"

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define CALIB8_DOT_PRODUCTS 1
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <int channels>
struct Lanes;

template <>
struct Lanes<16> {
  static constexpr int kChannels = 16;
  using Ints = __m128i;
  using Floats = __m128;

  static Ints load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static void store(void* to, Ints a) { _mm_storeu_si128(static_cast<__m128i*>(to), a); }
  // The first `count` channels alone.
  static void store_some(void* to, Ints a, int64_t count) {
#if defined(__AVX512BW__)
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>((1U << count) - 1), a);
#else
    auto* next = static_cast<uint8_t*>(to);
    if (count & 16) return store(to, a);
    if (count & 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(next), a);
      a = _mm_srli_si128(a, 8), next += 8;
    }
    if (count & 4) {
      _mm_storeu_si32(next, a);
      a = _mm_srli_si128(a, 4), next += 4;
    }
    if (count & 2) {
      _mm_storeu_si16(next, a);
      a = _mm_srli_si128(a, 2), next += 2;
    }
    if (count & 1) *next = static_cast<uint8_t>(_mm_extract_epi8(a, 0));
#endif
  }
  // Lane l from `from` + l · step.
  static Ints lanes(const uint8_t* from, int64_t) { return load(from); }
  static Ints lanes(const uint8_t* const* from) { return load(from[0]); }
  static __m128i lane(Ints a, int) { return a; }
  static Ints low8(Ints a, Ints b) { return _mm_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm_shuffle_epi8(a, places); }
  static Ints set64(int64_t a) { return _mm_set1_epi64x(a); }
  static Ints set16(int32_t a) { return _mm_set1_epi16(static_cast<int16_t>(a)); }
  static Ints set8(int32_t a) { return _mm_set1_epi8(static_cast<int8_t>(a)); }
  static Ints low_half(Ints a) { return _mm_and_si128(a, _mm_set1_epi16(0xFF)); }
  static Ints high_half(Ints a) { return _mm_srli_epi16(a, 8); }
  static Ints signed_low_half(Ints a) { return _mm_srai_epi16(_mm_slli_epi16(a, 8), 8); }
  static Ints signed_high_half(Ints a) { return _mm_srai_epi16(a, 8); }
  static Ints multiply_add16(Ints a, Ints b) { return _mm_madd_epi16(a, b); }
  static Ints add32(Ints a, Ints b) { return _mm_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm_add_epi64(a, b); }
  static Ints even_products(Ints a, Ints b) { return _mm_mul_epi32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm_srli_epi64(a, 32); }
  // Upper halves of the 64-bit numbers in two vectors: of `even` at the even places, of `odd` at the odd
  // ones.
  static Ints upper_halves(Ints even, Ints odd) {
    return _mm_blend_epi32(_mm_shuffle_epi32(even, 0xF5), odd, 0xA);
  }
  static Ints right(Ints a, Ints count) { return _mm_srav_epi32(a, count); }
  static Ints sign(Ints a) { return _mm_srai_epi32(a, 31); }
  static Floats floats(Ints a) { return _mm_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm_castsi128_ps(a); }
  static Floats multiply(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static Ints rounded(Floats a) { return _mm_cvtps_epi32(a); }
  static Ints pack32(Ints a, Ints b) { return _mm_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm_packus_epi16(a, b); }
  static Ints add16(Ints a, Ints b) { return _mm_adds_epi16(a, b); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return _mm_min_epu8(_mm_max_epu8(a, low), high); }
#if defined(__AVX512VNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm_dpbusd_epi32(acc, codes, weights); }
#elif defined(__AVXVNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm_dpbusd_avx_epi32(acc, codes, weights); }
#endif
};

template <>
struct Lanes<32> {
  static constexpr int kChannels = 32;
  using Ints = __m256i;
  using Floats = __m256;

  static Ints load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
  static void store(void* to, Ints a) { _mm256_storeu_si256(static_cast<__m256i*>(to), a); }
  static void store_some(void* to, Ints a, int64_t count) {
#if defined(__AVX512BW__)
    _mm256_mask_storeu_epi8(to, static_cast<__mmask32>((uint64_t{1} << count) - 1), a);
#else
    if (count < 16) return Lanes<16>::store_some(to, _mm256_castsi256_si128(a), count);
    Lanes<16>::store(to, _mm256_castsi256_si128(a));
    Lanes<16>::store_some(static_cast<uint8_t*>(to) + 16, _mm256_extracti128_si256(a, 1), count - 16);
#endif
  }
  static Ints lanes(const uint8_t* from, int64_t step) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(Lanes<16>::load(from)),
                                   Lanes<16>::load(from + step), 1);
  }
  static Ints lanes(const uint8_t* const* from) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(Lanes<16>::load(from[0])), Lanes<16>::load(from[1]),
                                   1);
  }
  static __m128i lane(Ints a, int number) {
    return number == 0 ? _mm256_castsi256_si128(a) : _mm256_extracti128_si256(a, 1);
  }
  static Ints low8(Ints a, Ints b) { return _mm256_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm256_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm256_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm256_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm256_shuffle_epi8(a, places); }
  static Ints set64(int64_t a) { return _mm256_set1_epi64x(a); }
  static Ints set16(int32_t a) { return _mm256_set1_epi16(static_cast<int16_t>(a)); }
  static Ints set8(int32_t a) { return _mm256_set1_epi8(static_cast<int8_t>(a)); }
  static Ints low_half(Ints a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xFF)); }
  static Ints high_half(Ints a) { return _mm256_srli_epi16(a, 8); }
  static Ints signed_low_half(Ints a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
  static Ints signed_high_half(Ints a) { return _mm256_srai_epi16(a, 8); }
  static Ints multiply_add16(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
  static Ints add32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm256_add_epi64(a, b); }
  static Ints even_products(Ints a, Ints b) { return _mm256_mul_epi32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm256_srli_epi64(a, 32); }
  static Ints upper_halves(Ints even, Ints odd) {
    return _mm256_blend_epi32(_mm256_shuffle_epi32(even, 0xF5), odd, 0xAA);
  }
  static Ints right(Ints a, Ints count) { return _mm256_srav_epi32(a, count); }
  static Ints sign(Ints a) { return _mm256_srai_epi32(a, 31); }
  static Floats floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm256_castsi256_ps(a); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Ints rounded(Floats a) { return _mm256_cvtps_epi32(a); }
  static Ints pack32(Ints a, Ints b) { return _mm256_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm256_packus_epi16(a, b); }
  static Ints add16(Ints a, Ints b) { return _mm256_adds_epi16(a, b); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return _mm256_min_epu8(_mm256_max_epu8(a, low), high); }
#if defined(__AVX512VNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm256_dpbusd_epi32(acc, codes, weights); }
#elif defined(__AVXVNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm256_dpbusd_avx_epi32(acc, codes, weights); }
#endif
};

#if defined(__AVX512VNNI__)
template <>
struct Lanes<64> {
  static constexpr int kChannels = 64;
  using Ints = __m512i;
  using Floats = __m512;

  static Ints load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Ints a) { _mm512_storeu_si512(to, a); }
  static void store_some(void* to, Ints a, int64_t count) {
    _mm512_mask_storeu_epi8(to, ~uint64_t{0} >> (64 - count), a);
  }
  static Ints lanes(const uint8_t* from, int64_t step) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(Lanes<32>::lanes(from, step)),
                              Lanes<32>::lanes(from + 2 * step, step), 1);
  }
  static Ints lanes(const uint8_t* const* from) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(Lanes<32>::lanes(from)), Lanes<32>::lanes(from + 2), 1);
  }
  static Ints joined(__m256i a, __m256i b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }
  static __m256i half(Ints a, int number) {
    return number == 0 ? _mm512_castsi512_si256(a) : _mm512_extracti64x4_epi64(a, 1);
  }
  static __m128i lane(Ints a, int number) { return Lanes<32>::lane(half(a, number / 2), number % 2); }
  static Ints low8(Ints a, Ints b) { return _mm512_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm512_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm512_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm512_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm512_shuffle_epi8(a, places); }
  static Ints set64(int64_t a) { return _mm512_set1_epi64(a); }
  static Ints set16(int32_t a) { return _mm512_set1_epi16(static_cast<int16_t>(a)); }
  static Ints set8(int32_t a) { return _mm512_set1_epi8(static_cast<int8_t>(a)); }
  static Ints add32(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm512_add_epi64(a, b); }
  static Ints even_products(Ints a, Ints b) { return _mm512_mul_epi32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm512_srli_epi64(a, 32); }
  static Ints upper_halves(Ints even, Ints odd) {
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  }
  static Ints right(Ints a, Ints count) { return _mm512_srav_epi32(a, count); }
  static Ints sign(Ints a) { return _mm512_srai_epi32(a, 31); }
  static Floats floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm512_castsi512_ps(a); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Ints rounded(Floats a) { return _mm512_cvtps_epi32(a); }
  static Ints pack32(Ints a, Ints b) { return _mm512_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm512_packus_epi16(a, b); }
  static Ints add16(Ints a, Ints b) { return _mm512_adds_epi16(a, b); }
  static Ints halve16(Ints a) { return _mm512_srai_epi16(a, 1); }
  template <bool with_sign>
  static Ints split(Ints acc, Ints high, Ints low, Ints nudge) {
    return multiplied_split<with_sign>(acc, bits(high), bits(low), bits(nudge));
  }
  static Ints clamp8(Ints a, Ints low, Ints high) { return _mm512_min_epu8(_mm512_max_epu8(a, low), high); }
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm512_dpbusd_epi32(acc, codes, weights); }
};
#endif

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
  const Codes<L>& operator[](int c) const { return codes[c]; }
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

}  // namespace
}  // namespace calib8::engine
