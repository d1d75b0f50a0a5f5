// Vectors of 8 numbers in AVX2 registers, as the elementwise kernels see them.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

struct Lanes {
  static constexpr int64_t kCount = 8;
  using I = __m256i;  // int32
  using F = __m256;   // float32
  // int64: those of the even and of the odd lanes.
  struct Wide {
    __m256i even, odd;
  };
  // What all codes go through on their way out: + zero point (16 bit, saturated), clamp.
  struct Finish {
    __m256i zero_point, low, high;
  };

  static I load(const uint8_t* codes) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  }
  static I load(const int32_t* sums) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)); }
  static F load(const float* values) { return _mm256_loadu_ps(values); }
  static I all(int32_t value) { return _mm256_set1_epi32(value); }
  static F all(float value) { return _mm256_set1_ps(value); }

  static F to_float(I v) { return _mm256_cvtepi32_ps(v); }
  // Nearest, ties to even; beyond 2^17 cut off there, NaN and what is below int32 become INT32_MIN.
  static I to_int(F v) { return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(131072.0F), v)); }
  static F add(F a, F b) { return _mm256_add_ps(a, b); }
  static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static F div(F a, F b) { return _mm256_div_ps(a, b); }
  static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }

  static I add(I a, I b) { return _mm256_add_epi32(a, b); }
  static I sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static I mul(I a, I b) { return _mm256_mullo_epi32(a, b); }
  static I and_(I a, I b) { return _mm256_and_si256(a, b); }
  static I xor_(I a, I b) { return _mm256_xor_si256(a, b); }
  static I min(I a, I b) { return _mm256_min_epi32(a, b); }
  static I max(I a, I b) { return _mm256_max_epi32(a, b); }
  static I abs(I a) { return _mm256_abs_epi32(a); }
  static I shift_left(I v, I by) { return _mm256_sllv_epi32(v, by); }
  static I shift_right(I v, I by) { return _mm256_srav_epi32(v, by); }
  static I shift_right_logical(I v, I by) { return _mm256_srlv_epi32(v, by); }
  // v + (a > b ? 1 : 0)
  static I add_if_greater(I v, I a, I b) { return _mm256_sub_epi32(v, _mm256_cmpgt_epi32(a, b)); }

  static Wide wide(I v) { return {_mm256_and_si256(v, low_halves()), _mm256_srli_epi64(v, 32)}; }  // unsigned
  static Wide all_wide(int64_t value) { return {_mm256_set1_epi64x(value), _mm256_set1_epi64x(value)}; }
  static Wide multiply(I a, I b) {
    return {_mm256_mul_epi32(a, b), _mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32))};
  }
  static Wide multiply_unsigned(I a, I b) {
    return {_mm256_mul_epu32(a, b), _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32))};
  }
  static Wide add(Wide a, Wide b) {
    return {_mm256_add_epi64(a.even, b.even), _mm256_add_epi64(a.odd, b.odd)};
  }
  static Wide shift_left(Wide v, Wide by) {
    return {_mm256_sllv_epi64(v.even, by.even), _mm256_sllv_epi64(v.odd, by.odd)};
  }
  static Wide shift_right(Wide v, Wide by) {
    return {shift_right(v.even, by.even, sign()), shift_right(v.odd, by.odd, sign())};
  }
  // Bits 31 … 62 of every number.
  static I bits_from_31(Wide v) {
    return _mm256_blend_epi32(_mm256_srli_epi64(v.even, 31), _mm256_slli_epi64(v.odd, 1), kOdd);
  }
  // As int32, saturated.
  static I narrow(Wide v) {
    return _mm256_blend_epi32(saturate(v.even), _mm256_slli_epi64(saturate(v.odd), 32), kOdd);
  }

  static Finish finish(int64_t zero_point, int64_t low, int64_t high) {
    return {_mm256_set1_epi16(static_cast<int16_t>(zero_point)), _mm256_set1_epi8(static_cast<char>(low)),
            _mm256_set1_epi8(static_cast<char>(high))};
  }
  static void store(uint8_t* codes, I a, I b, I c, I d, const Finish& to) {
    const __m256i ab = _mm256_adds_epi16(_mm256_packs_epi32(a, b), to.zero_point);
    const __m256i cd = _mm256_adds_epi16(_mm256_packs_epi32(c, d), to.zero_point);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
    store_bytes(codes, _mm256_min_epu8(_mm256_max_epu8(bytes, to.low), to.high));
  }

  // Bytes, kBytes at once.
  static constexpr int64_t kBytes = 32;
  static void store_larger(uint8_t* to, const uint8_t* a, const uint8_t* b) {
    store_bytes(to, _mm256_max_epu8(load_bytes(a), load_bytes(b)));
  }
  static void store_smaller(uint8_t* to, const uint8_t* a, const uint8_t* b) {
    store_bytes(to, _mm256_min_epu8(load_bytes(a), load_bytes(b)));
  }

  // Up to 64 elements of the end of a run.
  template <class T>
  static void copy_end(T* to, const T* from, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }

 private:
  static constexpr int kOdd = 0xAA;
  static __m256i load_bytes(const uint8_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void store_bytes(uint8_t* to, __m256i bytes) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), bytes);
  }
  static __m256i low_halves() { return _mm256_set1_epi64x(0xFFFFFFFF); }
  static __m256i sign() { return _mm256_set1_epi64x(INT64_MIN); }
  // There is no arithmetic shift of 64 bits: (v + 2^63) >> by, minus 2^63 >> by.
  static __m256i shift_right(__m256i v, __m256i by, __m256i top) {
    const __m256i shifted = _mm256_srlv_epi64(_mm256_xor_si256(v, top), by);
    return _mm256_sub_epi64(shifted, _mm256_srlv_epi64(top, by));
  }
  static __m256i saturate(__m256i v) {
    const __m256i most = _mm256_set1_epi64x(INT32_MAX), least = _mm256_set1_epi64x(INT32_MIN);
    v = _mm256_blendv_epi8(v, most, _mm256_cmpgt_epi64(v, most));
    return _mm256_blendv_epi8(v, least, _mm256_cmpgt_epi64(least, v));
  }
};

}  // namespace
}  // namespace calib8::engine
