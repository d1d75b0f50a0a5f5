// Vectors of 64 bytes under the names of lanes_avx2.h.
#pragma once

#include "lanes_avx2.h"
#include "split_factors.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <>
struct Lanes<64> {
  using Ints = __m512i;
  using Floats = __m512;

  static Ints load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Ints a) { _mm512_storeu_si512(to, a); }
  static void store_some(void* to, Ints a, int64_t count) {
    _mm512_mask_storeu_epi8(to, ~uint64_t{0} >> (64 - count), a);
  }
  static void copy_some(uint8_t* to, const uint8_t* from, int64_t count) {
    const __mmask64 mask = ~uint64_t{0} >> (64 - count);
    _mm512_mask_storeu_epi8(to, mask, _mm512_maskz_loadu_epi8(mask, from));
  }
  static void copy_some(int16_t* to, const int16_t* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 32) {
      const __mmask32 mask = count - i < 32 ? (1U << (count - i)) - 1 : ~0U;
      _mm512_mask_storeu_epi16(to + i, mask, _mm512_maskz_loadu_epi16(mask, from + i));
    }
  }
  static void copy_some(int32_t* to, const int32_t* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
      const __mmask16 mask = static_cast<__mmask16>(count - i < 16 ? (1U << (count - i)) - 1 : 0xFFFFU);
      _mm512_mask_storeu_epi32(to + i, mask, _mm512_maskz_loadu_epi32(mask, from + i));
    }
  }
  static void copy_some(float* to, const float* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
      const auto mask = static_cast<__mmask16>(count - i < 16 ? (1U << (count - i)) - 1 : 0xFFFFU);
      _mm512_mask_storeu_ps(to + i, mask, _mm512_maskz_loadu_ps(mask, from + i));
    }
  }
  static Ints lanes(const uint8_t* from, int64_t step) {
    return joined(Lanes<32>::lanes(from, step), Lanes<32>::lanes(from + 2 * step, step));
  }
  static Ints lanes(const uint8_t* const* from) {
    return joined(Lanes<32>::lanes(from), Lanes<32>::lanes(from + 2));
  }
  static Ints joined(__m256i a, __m256i b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }
  static __m256i half(Ints a, int number) {
    return number == 0 ? _mm512_castsi512_si256(a) : _mm512_extracti64x4_epi64(a, 1);
  }
  static __m128i lane(Ints a, int number) { return Lanes<32>::lane(half(a, number / 2), number % 2); }

  static Ints numbers(const uint8_t* codes) { return _mm512_cvtepu8_epi32(Lanes<16>::load(codes)); }
  static Ints numbers(const int16_t* codes) { return _mm512_cvtepi16_epi32(Lanes<32>::load(codes)); }
  static Ints numbers(const int32_t* sums) { return load(sums); }
  static Floats numbers(const float* values) { return _mm512_loadu_ps(values); }
  static Ints numbers16(const uint8_t* codes) { return _mm512_cvtepu8_epi16(Lanes<32>::load(codes)); }
  static Ints numbers16(const int16_t* codes) { return load(codes); }
  static Ints first_half16(Ints a) { return _mm512_cvtepu16_epi32(half(a, 0)); }
  static Ints other_half16(Ints a) { return _mm512_cvtepu16_epi32(half(a, 1)); }
  static void store_numbers(uint8_t* to, Ints values, int64_t count) {
    const __m128i codes = _mm512_cvtepi32_epi8(values);
    if (count >= 16) {
      Lanes<16>::store(to, codes);
    } else {
      Lanes<16>::store_some(to, codes, count);
    }
  }

  static void store_words(int16_t* to, Ints values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(values));
  }

  template <class Code>
  static __m128i codes_of_16(const float* values, const Code& code) {
    return _mm512_cvtepi32_epi8(code(numbers(values)));
  }
  template <class Code>
  static __m128i codes_of_some(const float* values, int64_t count, const Code& code) {
    const auto mask = static_cast<__mmask16>((1U << count) - 1);
    return _mm512_cvtepi32_epi8(code(_mm512_maskz_loadu_ps(mask, values)));
  }

  static Floats gathered(const float* table, Ints places) { return _mm512_i32gather_ps(places, table, 4); }
  static Ints gathered(const int32_t* table, Ints places) { return _mm512_i32gather_epi32(places, table, 4); }

  static Ints zero() { return _mm512_setzero_si512(); }
  static Ints set8(int32_t a) { return _mm512_set1_epi8(static_cast<int8_t>(a)); }
  static Ints set16(int32_t a) { return _mm512_set1_epi16(static_cast<int16_t>(a)); }
  static Ints all(int32_t a) { return _mm512_set1_epi32(a); }
  static Ints set64(int64_t a) { return _mm512_set1_epi64(a); }
  static Floats all(float a) { return _mm512_set1_ps(a); }

  static Ints low8(Ints a, Ints b) { return _mm512_unpacklo_epi8(a, b); }
  static Ints high8(Ints a, Ints b) { return _mm512_unpackhi_epi8(a, b); }
  static Ints low16(Ints a, Ints b) { return _mm512_unpacklo_epi16(a, b); }
  static Ints high16(Ints a, Ints b) { return _mm512_unpackhi_epi16(a, b); }
  static Ints shuffle8(Ints a, Ints places) { return _mm512_shuffle_epi8(a, places); }
  static Ints permute32(Ints a, Ints places) { return _mm512_permutexvar_epi32(places, a); }
  static Ints words_in_order(Ints a) {
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), a);
  }
  static Ints in_order(Ints a) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, a);
  }

  static Ints max8(Ints a, Ints b) { return _mm512_max_epu8(a, b); }
  static Ints min8(Ints a, Ints b) { return _mm512_min_epu8(a, b); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return min8(max8(a, low), high); }
  static Ints first8(Ints a, int64_t count) {
    return count >= 64 ? a : _mm512_maskz_mov_epi8((uint64_t{1} << count) - 1, a);
  }
  static uint64_t equal8(Ints a, Ints b) { return _mm512_cmpeq_epi8_mask(a, b); }
  static int largest8(Ints a) { return Lanes<32>::largest8(_mm256_max_epu8(half(a, 0), half(a, 1))); }

  static Ints add16(Ints a, Ints b) { return _mm512_adds_epi16(a, b); }
  static Ints wrap_add16(Ints a, Ints b) { return _mm512_add_epi16(a, b); }
  static Ints subtract16(Ints a, Ints b) { return _mm512_subs_epi16(a, b); }  // saturated
  static Ints larger16(Ints a, Ints b) { return _mm512_max_epi16(a, b); }
  static Ints smaller16(Ints a, Ints b) { return _mm512_min_epi16(a, b); }
  static Ints parts16(Ints a, Ints b) { return _mm512_mulhrs_epi16(a, b); }  // (a·b + 2^14) >> 15
  template <int count>
  static Ints right16(Ints a) {
    return _mm512_srai_epi16(a, count);
  }
  template <int count>
  static Ints left16(Ints a) {
    return _mm512_slli_epi16(a, count);
  }
  static Ints subtract8(Ints a, Ints b) { return _mm512_sub_epi8(a, b); }
  static Ints saturated_add8(Ints a, Ints b) { return _mm512_adds_epu8(a, b); }
  static Ints or_bits(Ints a, Ints b) { return _mm512_or_si512(a, b); }
  static Ints add_products16(Ints acc, Ints a, Ints b) { return _mm512_dpwssd_epi32(acc, a, b); }
  static Ints dot(Ints acc, Ints codes, Ints weights) { return _mm512_dpbusd_epi32(acc, codes, weights); }

  static Ints add32(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
  static Ints subtract32(Ints a, Ints b) { return _mm512_sub_epi32(a, b); }
  static Ints multiply32(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
  static Ints min32(Ints a, Ints b) { return _mm512_min_epi32(a, b); }
  static Ints max32(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
  static Ints magnitude32(Ints a) { return _mm512_abs_epi32(a); }
  static Ints with_sign32(Ints a, Ints sign) {
    return _mm512_mask_sub_epi32(a, _mm512_movepi32_mask(sign), _mm512_setzero_si512(), a);
  }
  static Ints and_bits(Ints a, Ints b) { return _mm512_and_si512(a, b); }
  static Ints xor_bits(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
  static Ints left(Ints a, Ints count) { return _mm512_sllv_epi32(a, count); }
  static Ints right(Ints a, Ints count) { return _mm512_srav_epi32(a, count); }
  template <int count>
  static Ints right(Ints a) {
    return _mm512_srai_epi32(a, count);
  }
  template <int count>
  static Ints unsigned_right(Ints a) {
    return _mm512_srli_epi32(a, count);
  }
  static Ints sign(Ints a) { return right<31>(a); }
  // a, with the other sign where `sign` is negative; `minus` is −a.
  static Floats turned32(Ints sign, Floats a, Floats) {
    const __m512i top = _mm512_set1_epi32(INT32_MIN);
    return bits(_mm512_ternarylogic_epi32(_mm512_castps_si512(a), sign, top, 0x78));
  }
  static Ints by_sign32(Ints sign, Ints positive, Ints negative) {
    return _mm512_mask_mov_epi32(positive, _mm512_movepi32_mask(sign), negative);
  }
  static Ints add_if_greater32(Ints v, Ints a, Ints b) {
    return _mm512_mask_sub_epi32(v, _mm512_cmpgt_epi32_mask(a, b), v, _mm512_set1_epi32(-1));
  }
  static Ints where_greater32(Ints a, Ints b, bool or_equal, Ints index, Ints other) {
    const __mmask16 mask = or_equal ? _mm512_cmpge_epi32_mask(a, b) : _mm512_cmpgt_epi32_mask(a, b);
    return _mm512_mask_mov_epi32(other, mask, index);
  }

  static Ints even_products(Ints a, Ints b) { return _mm512_mul_epi32(a, b); }
  static Ints unsigned_even_products(Ints a, Ints b) { return _mm512_mul_epu32(a, b); }
  static Ints odd_to_even(Ints a) { return _mm512_srli_epi64(a, 32); }
  static Ints upper_halves(Ints even, Ints odd) {
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
  }
  static Ints lower_halves(Ints even, Ints odd) { return alternate(even, _mm512_slli_epi64(odd, 32)); }
  static Ints bits_from_31(Ints even, Ints odd) {
    return alternate(_mm512_srli_epi64(even, 31), _mm512_slli_epi64(odd, 1));
  }
  static Ints add64(Ints a, Ints b) { return _mm512_add_epi64(a, b); }
  static Ints left64(Ints a, Ints count) { return _mm512_sllv_epi64(a, count); }
  static Ints right64(Ints a, Ints count) { return _mm512_srav_epi64(a, count); }
  static Ints limit64(Ints a) {
    return _mm512_max_epi64(_mm512_min_epi64(a, _mm512_set1_epi64(INT32_MAX)), _mm512_set1_epi64(INT32_MIN));
  }

  static Floats floats(Ints a) { return _mm512_cvtepi32_ps(a); }
  static Floats bits(Ints a) { return _mm512_castsi512_ps(a); }
  static Ints as_ints(Floats a) { return _mm512_castps_si512(a); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
  static Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats add_down(Floats a, Floats b) { return _mm512_add_round_ps(a, b, kDownwards); }
  static Floats multiply_add_down(Floats a, Floats b, Floats c) {
    return _mm512_fmadd_round_ps(a, b, c, kDownwards);
  }
  static Ints rounded_down(Floats a) { return _mm512_cvt_roundps_epi32(a, kDownwards); }
  static Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Ints rounded(Floats a) { return _mm512_cvtps_epi32(a); }
  static Ints truncated(Floats a) { return _mm512_cvttps_epi32(a); }
  static Ints rounded_away(Floats a) {
    const __m512 whole = _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m512 rest = _mm512_abs_ps(_mm512_sub_ps(a, whole));
    const __mmask16 up = _mm512_cmp_ps_mask(rest, _mm512_set1_ps(0.5F), _CMP_GE_OQ);
    const __m512 one = _mm512_or_ps(_mm512_and_ps(a, _mm512_set1_ps(-0.0F)), _mm512_set1_ps(1.0F));
    return _mm512_cvttps_epi32(_mm512_mask_add_ps(whole, up, whole, one));
  }
  static Floats distance_to_whole(Floats a) { return _mm512_abs_ps(_mm512_reduce_ps(a, 0)); }
  static bool any_above(Floats a, Floats limit) { return _mm512_cmp_ps_mask(a, limit, _CMP_GT_OQ) != 0; }

  static Ints pack32(Ints a, Ints b) { return _mm512_packs_epi32(a, b); }
  static Ints pack16(Ints a, Ints b) { return _mm512_packus_epi16(a, b); }

 private:
  static constexpr int kDownwards = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  static Ints alternate(Ints even, Ints odd) { return _mm512_mask_blend_epi32(0xAAAA, even, odd); }
};

}  // namespace
}  // namespace calib8::engine
