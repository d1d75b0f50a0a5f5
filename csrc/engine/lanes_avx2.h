// Vectors of 16 and 32 bytes under names that all kernels share; lanes_avx512.h has those of 64.
//
// Lanes<n> are n codes of 8 bits, n / 2 numbers of 16, n / 4 of 32 or float32, n / 8 of 64 bits: a name says
// which it takes as integers (`add16`), one without a number means float32 (`add`). Where a compiler has a
// shorter form for the flags of a file, it stands behind #if: files of AVX-512 take these vectors too. Loads
// may read up to a vector beyond what is wanted, stores never write more than they are told.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <int bytes>
struct Lanes;

// What blocks of 16 channels need.
template <>
struct Lanes<16> {
  using Ints = __m128i;
  using Floats = __m128;

  static Ints load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
  static void store(void* to, Ints a) { _mm_storeu_si128(static_cast<__m128i*>(to), a); }
  // The first `count` bytes, at most all of them.
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
  // 128 bits ("a lane") number l from `from` + l · step.
  static Ints lanes(const uint8_t* from, int64_t) { return load(from); }
  static Ints lanes(const uint8_t* const* from) { return load(from[0]); }
  static __m128i lane(Ints a, int) { return a; }

  static Ints set8(int32_t a) { return _mm_set1_epi8(static_cast<int8_t>(a)); }
  static Ints set16(int32_t a) { return _mm_set1_epi16(static_cast<int16_t>(a)); }
  static Ints set64(int64_t a) { return _mm_set1_epi64x(a); }

  // Within lanes: interleaved lower or upper halves, bytes at places.
  static Ints low8(Ints a, Ints b) { return _mm_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm_shuffle_epi8(a, places); }

  // Bytes in the even or odd places as numbers of 16 bits.
  static Ints low_half(Ints a) { return _mm_and_si128(a, _mm_set1_epi16(0xFF)); }
  static Ints high_half(Ints a) { return _mm_srli_epi16(a, 8); }
  static Ints signed_low_half(Ints a) { return _mm_srai_epi16(_mm_slli_epi16(a, 8), 8); }
  static Ints signed_high_half(Ints a) { return _mm_srai_epi16(a, 8); }

  static Ints multiply_add16(Ints a, Ints b) { return _mm_madd_epi16(a, b); }  // Σ over pairs
  static Ints add32(Ints a, Ints b) { return _mm_add_epi32(a, b); }
  static Ints add64(Ints a, Ints b) { return _mm_add_epi64(a, b); }
  static Ints min32(Ints a, Ints b) { return _mm_min_epi32(a, b); }
  static Ints max32(Ints a, Ints b) { return _mm_max_epi32(a, b); }
  static Ints left(Ints a, Ints count) { return _mm_sllv_epi32(a, count); }
  static Ints right(Ints a, Ints count) { return _mm_srav_epi32(a, count); }
  static Ints sign(Ints a) { return _mm_srai_epi32(a, 31); }
  static Floats turned32(Ints sign, Floats a, Floats minus) { return _mm_blendv_ps(a, minus, bits(sign)); }
  static Ints by_sign32(Ints sign, Ints positive, Ints negative) {
    return _mm_castps_si128(_mm_blendv_ps(bits(positive), bits(negative), bits(sign)));
  }

  // Products of the even places, 64 bits; the odd places are moved there first.
  static Ints even_products(Ints a, Ints b) { return _mm_mul_epi32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm_srli_epi64(a, 32); }
  // Upper halves of the 64-bit numbers of two vectors: of `even` in even places, of `odd` in odd ones.
  static Ints upper_halves(Ints even, Ints odd) {
    return _mm_blend_epi32(_mm_shuffle_epi32(even, 0xF5), odd, 0xA);
  }

  static Floats all(float a) { return _mm_set1_ps(a); }
  static Floats floats(Ints a) { return _mm_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm_castsi128_ps(a); }
  static Floats multiply(Floats a, Floats b) { return _mm_mul_ps(a, b); }
  static Ints rounded(Floats a) { return _mm_cvtps_epi32(a); }
  // Rounded down, within rounded_down of fixed_steps.h.
  static Floats add_down(Floats a, Floats b) { return _mm_add_ps(a, b); }
  static Floats multiply_add_down(Floats a, Floats b, Floats c) { return _mm_fmadd_ps(a, b, c); }
  static Ints rounded_down(Floats a) { return _mm_cvtps_epi32(a); }

  // Narrower by half, saturated, lane by lane: to int16, to uint8.
  static Ints pack32(Ints a, Ints b) { return _mm_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm_packus_epi16(a, b); }
  static Ints add16(Ints a, Ints b) { return _mm_adds_epi16(a, b); }  // saturated
  static Ints wrap_add16(Ints a, Ints b) { return _mm_add_epi16(a, b); }
  static Ints subtract16(Ints a, Ints b) { return _mm_subs_epi16(a, b); }  // saturated
  static Ints larger16(Ints a, Ints b) { return _mm_max_epi16(a, b); }
  static Ints smaller16(Ints a, Ints b) { return _mm_min_epi16(a, b); }
  static Ints parts16(Ints a, Ints b) { return _mm_mulhrs_epi16(a, b); }  // (a·b + 2^14) >> 15
  template <int count>
  static Ints left16(Ints a) {
    return _mm_slli_epi16(a, count);
  }
  template <int count>
  static Ints right16(Ints a) {
    return _mm_srai_epi16(a, count);
  }
  static Ints subtract8(Ints a, Ints b) { return _mm_sub_epi8(a, b); }
  static Ints saturated_add8(Ints a, Ints b) { return _mm_adds_epu8(a, b); }
  static Ints or_bits(Ints a, Ints b) { return _mm_or_si128(a, b); }
  static Ints and_bits(Ints a, Ints b) { return _mm_and_si128(a, b); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return _mm_min_epu8(_mm_max_epu8(a, low), high); }
#if defined(__AVX512VNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm_dpbusd_epi32(acc, codes, weights); }
#elif defined(__AVXVNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm_dpbusd_avx_epi32(acc, codes, weights); }
#endif
};

template <>
struct Lanes<32> {
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
  // Up to 64 elements.
  template <class T>
  static void copy_some(T* to, const T* from, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
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

  // As many numbers as lie in a vector, each widened to 32 bits.
  static Ints numbers(const uint8_t* codes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  }
  static Ints numbers(const int16_t* codes) { return _mm256_cvtepi16_epi32(Lanes<16>::load(codes)); }
  static Ints numbers(const int32_t* sums) { return load(sums); }
  static Floats numbers(const float* values) { return _mm256_loadu_ps(values); }
  // Codes widened to 16 bits; numbers of 16 bits widened to 32: those of the first half, of the other one.
  static Ints numbers16(const uint8_t* codes) { return _mm256_cvtepu8_epi16(Lanes<16>::load(codes)); }
  static Ints numbers16(const int16_t* codes) { return load(codes); }
  static Ints first_half16(Ints a) { return _mm256_cvtepu16_epi32(lane(a, 0)); }
  static Ints other_half16(Ints a) { return _mm256_cvtepu16_epi32(lane(a, 1)); }
  // Values 0 … 255 of 32 bits, of which the first `count` are written, at most all of them.
  static void store_numbers(uint8_t* to, Ints values, int64_t count) {
    const __m128i words = _mm_packus_epi32(lane(values, 0), lane(values, 1));
    const __m128i codes = _mm_packus_epi16(words, words);
    if (count >= 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), codes);
    } else {
      Lanes<16>::store_some(to, codes, count);
    }
  }

  // As int16, saturated.
  static void store_words(int16_t* to, Ints values) {
    const __m256i words = _mm256_permute4x64_epi64(pack32(values, values), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), lane(words, 0));
  }

  // The first `count` numbers of 32 bits: all ones, the others 0.
  static Ints first32(int64_t count) {
    const __m256i places = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), places);
  }
  // code(values) of 16 values, or of the first `count` of 16; codes are numbers 0 … 255.
  template <class Code>
  static __m128i codes_of_16(const float* values, const Code& code) {
    return narrowed(code(numbers(values)), code(numbers(values + 8)));
  }
  template <class Code>
  static __m128i codes_of_some(const float* values, int64_t count, const Code& code) {
    const __m256 low = _mm256_maskload_ps(values, first32(count));
    const __m256 high = count > 8 ? _mm256_maskload_ps(values + 8, first32(count - 8)) : _mm256_setzero_ps();
    return narrowed(code(low), code(high));
  }

  // Entries of a table by their number.
  static Floats gathered(const float* table, Ints places) { return _mm256_i32gather_ps(table, places, 4); }
  static Ints gathered(const int32_t* table, Ints places) { return _mm256_i32gather_epi32(table, places, 4); }

  static Ints zero() { return _mm256_setzero_si256(); }
  static Ints set8(int32_t a) { return _mm256_set1_epi8(static_cast<int8_t>(a)); }
  static Ints set16(int32_t a) { return _mm256_set1_epi16(static_cast<int16_t>(a)); }
  static Ints all(int32_t a) { return _mm256_set1_epi32(a); }
  static Ints set64(int64_t a) { return _mm256_set1_epi64x(a); }
  static Floats all(float a) { return _mm256_set1_ps(a); }

  static Ints low8(Ints a, Ints b) { return _mm256_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm256_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm256_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm256_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm256_shuffle_epi8(a, places); }
  // Numbers of 32 bits at places.
  static Ints permute32(Ints a, Ints places) { return _mm256_permutevar8x32_epi32(a, places); }
  // What pack32 has packed from neighbours, in the order of memory; what pack32 and pack16 have.
  static Ints words_in_order(Ints a) { return _mm256_permute4x64_epi64(a, 0xD8); }
  static Ints in_order(Ints a) {
    return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }

  static Ints low_half(Ints a) { return _mm256_and_si256(a, _mm256_set1_epi16(0xFF)); }
  static Ints high_half(Ints a) { return _mm256_srli_epi16(a, 8); }
  static Ints signed_low_half(Ints a) { return _mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8); }
  static Ints signed_high_half(Ints a) { return _mm256_srai_epi16(a, 8); }

  static Ints max8(Ints a, Ints b) { return _mm256_max_epu8(a, b); }
  static Ints min8(Ints a, Ints b) { return _mm256_min_epu8(a, b); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return min8(max8(a, low), high); }
  // The first `count` bytes; the others are 0.
  static Ints first8(Ints a, int64_t count) {
    const __m256i places = _mm256_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18,
                                            19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    const auto end = static_cast<char>(count < 32 ? count : 32);
    return _mm256_and_si256(a, _mm256_cmpgt_epi8(_mm256_set1_epi8(end), places));
  }
  // Bit i: byte i is that of the other.
  static uint64_t equal8(Ints a, Ints b) {
    return static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)));
  }
  static int largest8(Ints a) {
    // the smallest of 8 words: bytes are paired first, and turned round
    const __m128i turned = _mm_xor_si128(_mm_max_epu8(lane(a, 0), lane(a, 1)), _mm_set1_epi8(-1));
    const __m128i paired = _mm_min_epu8(turned, _mm_srli_epi16(turned, 8));
    return 255 - (_mm_cvtsi128_si32(_mm_minpos_epu16(paired)) & 0xff);
  }

  static Ints add16(Ints a, Ints b) { return _mm256_adds_epi16(a, b); }
  static Ints wrap_add16(Ints a, Ints b) { return _mm256_add_epi16(a, b); }
  static Ints subtract16(Ints a, Ints b) { return _mm256_subs_epi16(a, b); }  // saturated
  static Ints larger16(Ints a, Ints b) { return _mm256_max_epi16(a, b); }
  static Ints smaller16(Ints a, Ints b) { return _mm256_min_epi16(a, b); }
  static Ints parts16(Ints a, Ints b) { return _mm256_mulhrs_epi16(a, b); }  // (a·b + 2^14) >> 15
  template <int count>
  static Ints left16(Ints a) {
    return _mm256_slli_epi16(a, count);
  }
  template <int count>
  static Ints right16(Ints a) {
    return _mm256_srai_epi16(a, count);
  }
  static Ints subtract8(Ints a, Ints b) { return _mm256_sub_epi8(a, b); }
  static Ints saturated_add8(Ints a, Ints b) { return _mm256_adds_epu8(a, b); }
  static Ints or_bits(Ints a, Ints b) { return _mm256_or_si256(a, b); }
  static Ints multiply_add16(Ints a, Ints b) { return _mm256_madd_epi16(a, b); }
  // Σ over pairs, added to `acc`.
#if defined(__AVXVNNI__)
  static Ints add_products16(Ints acc, Ints a, Ints b) { return _mm256_dpwssd_avx_epi32(acc, a, b); }
#else
  static Ints add_products16(Ints acc, Ints a, Ints b) { return add32(acc, multiply_add16(a, b)); }
#endif
#if defined(__AVX512VNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm256_dpbusd_epi32(acc, codes, weights); }
#elif defined(__AVXVNNI__)
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm256_dpbusd_avx_epi32(acc, codes, weights); }
#endif

  static Ints add32(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
  static Ints subtract32(Ints a, Ints b) { return _mm256_sub_epi32(a, b); }
  static Ints multiply32(Ints a, Ints b) { return _mm256_mullo_epi32(a, b); }
  static Ints min32(Ints a, Ints b) { return _mm256_min_epi32(a, b); }
  static Ints max32(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
  static Ints magnitude32(Ints a) { return _mm256_abs_epi32(a); }
  // a, or −a where `sign` is negative.
  static Ints with_sign32(Ints a, Ints sign) {
    return _mm256_sign_epi32(a, _mm256_or_si256(sign, _mm256_set1_epi32(1)));
  }
  static Ints and_bits(Ints a, Ints b) { return _mm256_and_si256(a, b); }
  static Ints xor_bits(Ints a, Ints b) { return _mm256_xor_si256(a, b); }
  static Ints left(Ints a, Ints count) { return _mm256_sllv_epi32(a, count); }
  static Ints right(Ints a, Ints count) { return _mm256_srav_epi32(a, count); }
  template <int count>
  static Ints right(Ints a) {
    return _mm256_srai_epi32(a, count);
  }
  template <int count>
  static Ints unsigned_right(Ints a) {
    return _mm256_srli_epi32(a, count);
  }
  static Ints sign(Ints a) { return right<31>(a); }
  // a, with the other sign where `sign` is negative; `minus` is −a.
  static Floats turned32(Ints sign, Floats a, Floats minus) { return _mm256_blendv_ps(a, minus, bits(sign)); }
  static Ints by_sign32(Ints sign, Ints positive, Ints negative) {
    return _mm256_castps_si256(_mm256_blendv_ps(bits(positive), bits(negative), bits(sign)));
  }
  // v + (a > b ? 1 : 0)
  static Ints add_if_greater32(Ints v, Ints a, Ints b) {
    return _mm256_sub_epi32(v, _mm256_cmpgt_epi32(a, b));
  }
  // `index` where a > b (or a ≥ b), else `other`.
  static Ints where_greater32(Ints a, Ints b, bool or_equal, Ints index, Ints other) {
    return or_equal ? _mm256_blendv_epi8(index, other, _mm256_cmpgt_epi32(b, a))
                    : _mm256_blendv_epi8(other, index, _mm256_cmpgt_epi32(a, b));
  }

  static Ints even_products(Ints a, Ints b) { return _mm256_mul_epi32(a, b); }
  static Ints unsigned_even_products(Ints a, Ints b) { return _mm256_mul_epu32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm256_srli_epi64(a, 32); }
  static Ints upper_halves(Ints even, Ints odd) { return alternate(_mm256_shuffle_epi32(even, 0xF5), odd); }
  static Ints lower_halves(Ints even, Ints odd) { return alternate(even, _mm256_slli_epi64(odd, 32)); }
  static Ints bits_from_31(Ints even, Ints odd) {
    return alternate(_mm256_srli_epi64(even, 31), _mm256_slli_epi64(odd, 1));
  }
  static Ints add64(Ints a, Ints b) { return _mm256_add_epi64(a, b); }
  static Ints left64(Ints a, Ints count) { return _mm256_sllv_epi64(a, count); }
  // There is no arithmetic shift of 64 bits: (a + 2^63) >> count, minus 2^63 >> count.
  static Ints right64(Ints a, Ints count) {
    const __m256i top = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_add_epi64(a, top), count),
                            _mm256_srlv_epi64(top, count));
  }
  // Cut off where int32 ends.
  static Ints limit64(Ints a) {
    const __m256i most = _mm256_set1_epi64x(INT32_MAX), least = _mm256_set1_epi64x(INT32_MIN);
    a = _mm256_blendv_epi8(a, most, _mm256_cmpgt_epi64(a, most));
    return _mm256_blendv_epi8(a, least, _mm256_cmpgt_epi64(least, a));
  }

  static Floats floats(Ints a) { return _mm256_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm256_castsi256_ps(a); }
  static Ints as_ints(Floats a) { return _mm256_castps_si256(a); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
  static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  // Rounded down, within rounded_down of fixed_steps.h.
  static Floats add_down(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats multiply_add_down(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Ints rounded_down(Floats a) { return _mm256_cvtps_epi32(a); }
  // b, where one of them is not-a-number.
  static Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
  // Ties to even; what does not fit becomes INT32_MIN.
  static Ints rounded(Floats a) { return _mm256_cvtps_epi32(a); }
  static Ints truncated(Floats a) { return _mm256_cvttps_epi32(a); }
  // Ties away from zero.
  static Ints rounded_away(Floats a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    const __m256 whole = _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256 rest = _mm256_andnot_ps(sign, _mm256_sub_ps(a, whole));
    const __m256 one = _mm256_or_ps(_mm256_and_ps(sign, a), _mm256_set1_ps(1.0F));
    const __m256 up = _mm256_cmp_ps(rest, _mm256_set1_ps(0.5F), _CMP_GE_OQ);
    return _mm256_cvttps_epi32(_mm256_add_ps(whole, _mm256_and_ps(up, one)));
  }
  // How far from the next whole number.
  static Floats distance_to_whole(Floats a) {
    const Floats rest = _mm256_sub_ps(a, _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), rest);
  }
  static bool any_above(Floats a, Floats limit) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, limit, _CMP_GT_OQ)) != 0;
  }

  static Ints pack32(Ints a, Ints b) { return _mm256_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm256_packus_epi16(a, b); }

 private:
  static __m128i narrowed(Ints first, Ints second) {
    const __m256i words = _mm256_permute4x64_epi64(pack32(first, second), 0xD8);
    return _mm_packus_epi16(lane(words, 0), lane(words, 1));
  }
  static Ints alternate(Ints even, Ints odd) { return _mm256_blend_epi32(even, odd, 0xAA); }
};

}  // namespace
}  // namespace calib8::engine
