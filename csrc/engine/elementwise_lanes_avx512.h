// Vectors of 16 numbers in AVX-512 registers, as the elementwise kernels see them.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

struct Lanes {
  static constexpr int64_t kCount = 16;
  using I = __m512i;  // int32
  using F = __m512;   // float32
  // int64: those of the even and of the odd lanes.
  struct Wide {
    __m512i even, odd;
  };
  // What all codes go through on their way out: + zero point (16 bit, saturated), clamp.
  struct Finish {
    __m512i zero_point, low, high;
  };

  static I load(const uint8_t* codes) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  static I load(const int32_t* sums) { return _mm512_loadu_si512(sums); }
  static F load(const float* values) { return _mm512_loadu_ps(values); }
  static I all(int32_t value) { return _mm512_set1_epi32(value); }
  static F all(float value) { return _mm512_set1_ps(value); }

  static F to_float(I v) { return _mm512_cvtepi32_ps(v); }
  // Nearest, ties to even; beyond 2^17 cut off there, NaN and what is below int32 become INT32_MIN.
  static I to_int(F v) { return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(131072.0F), v)); }
  static F add(F a, F b) { return _mm512_add_ps(a, b); }
  static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static F div(F a, F b) { return _mm512_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }

  static I add(I a, I b) { return _mm512_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm512_mullo_epi32(a, b); }
  static I and_(I a, I b) { return _mm512_and_si512(a, b); }
  static I xor_(I a, I b) { return _mm512_xor_si512(a, b); }
  static I min(I a, I b) { return _mm512_min_epi32(a, b); }
  static I max(I a, I b) { return _mm512_max_epi32(a, b); }
  static I abs(I a) { return _mm512_abs_epi32(a); }
  static I shift_left(I v, I by) { return _mm512_sllv_epi32(v, by); }
  static I shift_right(I v, I by) { return _mm512_srav_epi32(v, by); }
  static I shift_right_logical(I v, I by) { return _mm512_srlv_epi32(v, by); }
  // v + (a > b ? 1 : 0)
  static I add_if_greater(I v, I a, I b) {
    return _mm512_mask_sub_epi32(v, _mm512_cmpgt_epi32_mask(a, b), v, _mm512_set1_epi32(-1));
  }

  static Wide wide(I v) { return {_mm512_and_si512(v, low_halves()), _mm512_srli_epi64(v, 32)}; }  // unsigned
  static Wide all_wide(int64_t value) { return {_mm512_set1_epi64(value), _mm512_set1_epi64(value)}; }
  static Wide multiply(I a, I b) {
    return {_mm512_mul_epi32(a, b), _mm512_mul_epi32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32))};
  }
  static Wide multiply_unsigned(I a, I b) {
    return {_mm512_mul_epu32(a, b), _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32))};
  }
  static Wide add(Wide a, Wide b) {
    return {_mm512_add_epi64(a.even, b.even), _mm512_add_epi64(a.odd, b.odd)};
  }
  static Wide shift_left(Wide v, Wide by) {
    return {_mm512_sllv_epi64(v.even, by.even), _mm512_sllv_epi64(v.odd, by.odd)};
  }
  static Wide shift_right(Wide v, Wide by) {
    return {_mm512_srav_epi64(v.even, by.even), _mm512_srav_epi64(v.odd, by.odd)};
  }
  // Bits 31 … 62 of every number.
  static I bits_from_31(Wide v) {
    return _mm512_mask_blend_epi32(kOdd, _mm512_srli_epi64(v.even, 31), _mm512_slli_epi64(v.odd, 1));
  }
  // As int32, saturated.
  static I narrow(Wide v) {
    return _mm512_mask_blend_epi32(kOdd, saturate(v.even), _mm512_slli_epi64(saturate(v.odd), 32));
  }

  static Finish finish(int64_t zero_point, int64_t low, int64_t high) {
    return {_mm512_set1_epi16(static_cast<int16_t>(zero_point)), _mm512_set1_epi8(static_cast<char>(low)),
            _mm512_set1_epi8(static_cast<char>(high))};
  }
  static void store(uint8_t* codes, I a, I b, I c, I d, const Finish& to) {
    const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), to.zero_point);
    const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), to.zero_point);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(ab, cd));
    _mm512_storeu_si512(codes, _mm512_min_epu8(_mm512_max_epu8(bytes, to.low), to.high));
  }

  // Bytes, kBytes at once.
  static constexpr int64_t kBytes = 64;
  static void store_larger(uint8_t* to, const uint8_t* a, const uint8_t* b) {
    _mm512_storeu_si512(to, _mm512_max_epu8(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
  }
  static void store_smaller(uint8_t* to, const uint8_t* a, const uint8_t* b) {
    _mm512_storeu_si512(to, _mm512_min_epu8(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
  }

  // Up to 64 elements of the end of a run.
  static void copy_end(uint8_t* to, const uint8_t* from, int64_t count) {
    const __mmask64 mask = ~uint64_t{0} >> (64 - count);
    _mm512_mask_storeu_epi8(to, mask, _mm512_maskz_loadu_epi8(mask, from));
  }
  static void copy_end(int32_t* to, const int32_t* from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
      const __mmask16 mask = static_cast<__mmask16>(count - i < 16 ? (1U << (count - i)) - 1 : 0xFFFFU);
      _mm512_mask_storeu_epi32(to + i, mask, _mm512_maskz_loadu_epi32(mask, from + i));
    }
  }

 private:
  static constexpr __mmask16 kOdd = 0xAAAA;
  static __m512i low_halves() { return _mm512_set1_epi64(0xFFFFFFFF); }
  static __m512i saturate(__m512i v) {
    return _mm512_max_epi64(_mm512_min_epi64(v, _mm512_set1_epi64(INT32_MAX)), _mm512_set1_epi64(INT32_MIN));
  }
};

}  // namespace
}  // namespace calib8::engine
