// Vectors of 16 bytes of Arm processors under the names of lanes_avx2.h, which explains them. A vector of
// integers has one type, whatever its numbers are.
#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <int bytes>
struct Lanes;

template <>
struct Lanes<16> {
  using Ints = int32x4_t;
  using Floats = float32x4_t;

  // The same bits as numbers of other sizes.
  static uint8x16_t u8(Ints a) { return vreinterpretq_u8_s32(a); }
  static int16x8_t s16(Ints a) { return vreinterpretq_s16_s32(a); }
  static uint16x8_t u16(Ints a) { return vreinterpretq_u16_s32(a); }
  static uint32x4_t u32(Ints a) { return vreinterpretq_u32_s32(a); }
  static int64x2_t s64(Ints a) { return vreinterpretq_s64_s32(a); }
  static uint64x2_t u64(Ints a) { return vreinterpretq_u64_s32(a); }
  static Ints ints(uint8x16_t a) { return vreinterpretq_s32_u8(a); }
  static Ints ints(int16x8_t a) { return vreinterpretq_s32_s16(a); }
  static Ints ints(uint16x8_t a) { return vreinterpretq_s32_u16(a); }
  static Ints ints(uint32x4_t a) { return vreinterpretq_s32_u32(a); }
  static Ints ints(int64x2_t a) { return vreinterpretq_s32_s64(a); }
  static Ints ints(uint64x2_t a) { return vreinterpretq_s32_u64(a); }

  static Ints load(const void* from) { return ints(vld1q_u8(static_cast<const uint8_t*>(from))); }
  static void store(void* to, Ints a) { vst1q_u8(static_cast<uint8_t*>(to), u8(a)); }
  // The first `count` bytes, at most all of them.
  static void store_some(void* to, Ints a, int64_t count) {
    auto* next = static_cast<uint8_t*>(to);
    if (count & 16) return store(to, a);
    if (count & 8) {
      vst1_u8(next, vget_low_u8(u8(a)));
      a = ints(vextq_u8(u8(a), u8(a), 8)), next += 8;
    }
    if (count & 4) {
      store_word(next, u32(a));
      a = ints(vextq_u8(u8(a), u8(a), 4)), next += 4;
    }
    if (count & 2) {
      const uint16_t two = vgetq_lane_u16(u16(a), 0);
      std::memcpy(next, &two, sizeof two);
      a = ints(vextq_u8(u8(a), u8(a), 2)), next += 2;
    }
    if (count & 1) *next = vgetq_lane_u8(u8(a), 0);
  }
  template <class T>
  static void copy_some(T* to, const T* from, int64_t count) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  }
  static Ints lanes(const uint8_t* from, int64_t) { return load(from); }
  static Ints lanes(const uint8_t* const* from) { return load(from[0]); }
  static uint64_t first64(Ints a) { return vgetq_lane_u64(u64(a), 0); }
  static Ints lane(Ints a, int) { return a; }

  static Ints numbers(const uint8_t* codes) {
    uint32_t four = 0;
    std::memcpy(&four, codes, sizeof four);
    return ints(vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(four)), spread()));
  }
  static Ints numbers_of(Ints codes) { return ints(vqtbl1q_u8(u8(codes), spread())); }
  template <class T>
  static auto some_numbers(const T* from, int64_t count) {
    T some[4] = {};
    std::memcpy(some, from, static_cast<size_t>(count) * sizeof *some);
    return numbers(some);
  }
  static Ints numbers(const int16_t* codes) { return vmovl_s16(vld1_s16(codes)); }
  static Ints numbers(const int32_t* sums) { return vld1q_s32(sums); }
  static Floats numbers(const float* values) { return vld1q_f32(values); }
  static Ints numbers16(const uint8_t* codes) { return ints(vmovl_u8(vld1_u8(codes))); }
  static Ints numbers16(const int16_t* codes) { return load(codes); }
  static Ints first_half16(Ints a) { return ints(vmovl_u16(vget_low_u16(u16(a)))); }
  static Ints other_half16(Ints a) { return ints(vmovl_high_u16(u16(a))); }
  static void store_numbers(uint8_t* to, Ints values, int64_t count) {
    const uint8x16_t codes = vqtbl1q_u8(u8(values), vreinterpretq_u8_u32(vdupq_n_u32(0x0c080400)));
    if (count >= 4) {
      store_word(to, vreinterpretq_u32_u8(codes));
    } else {
      store_some(to, ints(codes), count);
    }
  }
  static void store_words(int16_t* to, Ints values) { vst1_s16(to, vqmovn_s32(values)); }

  template <class Code>
  static Ints codes_of_16(const float* values, const Code& code) {
    return pack16(pack32(code(numbers(values)), code(numbers(values + 4))),
                  pack32(code(numbers(values + 8)), code(numbers(values + 12))));
  }
  template <class Code>
  static Ints codes_of_some(const float* values, int64_t count, const Code& code) {
    float some[16] = {};
    std::memcpy(some, values, static_cast<size_t>(count) * sizeof *some);
    return codes_of_16(some, code);
  }

  static Floats gathered(const float* table, Ints places) {
    const float found[] = {table[vgetq_lane_s32(places, 0)], table[vgetq_lane_s32(places, 1)],
                           table[vgetq_lane_s32(places, 2)], table[vgetq_lane_s32(places, 3)]};
    return vld1q_f32(found);
  }
  static Ints gathered(const int32_t* table, Ints places) {
    const int32_t found[] = {table[vgetq_lane_s32(places, 0)], table[vgetq_lane_s32(places, 1)],
                             table[vgetq_lane_s32(places, 2)], table[vgetq_lane_s32(places, 3)]};
    return vld1q_s32(found);
  }

  static Ints zero() { return vdupq_n_s32(0); }
  static Ints set8(int32_t a) { return ints(vdupq_n_u8(static_cast<uint8_t>(a))); }
  static Ints set16(int32_t a) { return ints(vdupq_n_s16(static_cast<int16_t>(a))); }
  static Ints all(int32_t a) { return vdupq_n_s32(a); }
  static Ints set64(int64_t a) { return ints(vdupq_n_s64(a)); }
  static Floats all(float a) { return vdupq_n_f32(a); }

  static Ints low8(Ints a, Ints b) { return ints(vzip1q_u8(u8(a), u8(b))); }
  static Ints high8(Ints a, Ints b) { return ints(vzip2q_u8(u8(a), u8(b))); }
  static Ints low16(Ints a, Ints b) { return ints(vzip1q_s16(s16(a), s16(b))); }
  static Ints high16(Ints a, Ints b) { return ints(vzip2q_s16(s16(a), s16(b))); }
  static Ints shuffle8(Ints a, Ints places) { return ints(vqtbl1q_u8(u8(a), u8(places))); }
  static Ints permute32(Ints a, Ints places) {
    return ints(vqtbl1q_u8(u8(a), u8(vmlaq_n_s32(all(0x03020100), places, 0x04040404))));
  }
  static Ints words_in_order(Ints a) { return a; }
  static Ints in_order(Ints a) { return a; }

  static Ints max8(Ints a, Ints b) { return ints(vmaxq_u8(u8(a), u8(b))); }
  static Ints min8(Ints a, Ints b) { return ints(vminq_u8(u8(a), u8(b))); }
  static Ints clamp8(Ints a, Ints low, Ints high) { return min8(max8(a, low), high); }
  static Ints first8(Ints a, int64_t count) {
    const uint8x16_t places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const uint8x16_t end = vdupq_n_u8(static_cast<uint8_t>(count < 16 ? count : 16));
    return ints(vandq_u8(u8(a), vcltq_u8(places, end)));
  }
  static uint64_t equal8(Ints a, Ints b) {
    const uint8x16_t bit = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t found = vandq_u8(vceqq_u8(u8(a), u8(b)), bit);
    return vaddv_u8(vget_low_u8(found)) | uint64_t{vaddv_u8(vget_high_u8(found))} << 8;
  }
  static int largest8(Ints a) { return vmaxvq_u8(u8(a)); }

  static Ints add16(Ints a, Ints b) { return ints(vqaddq_s16(s16(a), s16(b))); }  // saturated
  static Ints wrap_add16(Ints a, Ints b) { return ints(vaddq_s16(s16(a), s16(b))); }
  static Ints subtract16(Ints a, Ints b) { return ints(vqsubq_s16(s16(a), s16(b))); }  // saturated
  static Ints larger16(Ints a, Ints b) { return ints(vmaxq_s16(s16(a), s16(b))); }
  static Ints smaller16(Ints a, Ints b) { return ints(vminq_s16(s16(a), s16(b))); }
  static Ints parts16(Ints a, Ints b) { return ints(vqrdmulhq_s16(s16(a), s16(b))); }  // not of −2^15 twice
  template <int count>
  static Ints left16(Ints a) {
    return ints(vshlq_n_s16(s16(a), count));
  }
  template <int count>
  static Ints right16(Ints a) {
    return ints(vshrq_n_s16(s16(a), count));
  }
  static Ints multiply_add16(Ints a, Ints b) {
    const Ints first = vmull_s16(vget_low_s16(s16(a)), vget_low_s16(s16(b)));
    return vpaddq_s32(first, vmull_high_s16(s16(a), s16(b)));
  }
  static Ints add_products16(Ints acc, Ints a, Ints b) { return add32(acc, multiply_add16(a, b)); }

  static Ints add32(Ints a, Ints b) { return vaddq_s32(a, b); }
  static Ints subtract32(Ints a, Ints b) { return vsubq_s32(a, b); }
  static Ints multiply32(Ints a, Ints b) { return vmulq_s32(a, b); }
  static Ints min32(Ints a, Ints b) { return vminq_s32(a, b); }
  static Ints max32(Ints a, Ints b) { return vmaxq_s32(a, b); }
  static Ints magnitude32(Ints a) { return vabsq_s32(a); }
  static Ints with_sign32(Ints a, Ints sign) { return vbslq_s32(vcltzq_s32(sign), vnegq_s32(a), a); }
  static Ints and_bits(Ints a, Ints b) { return vandq_s32(a, b); }
  static Ints or_bits(Ints a, Ints b) { return vorrq_s32(a, b); }
  static Ints xor_bits(Ints a, Ints b) { return veorq_s32(a, b); }
  static Ints left(Ints a, Ints count) { return vshlq_s32(a, count); }
  static Ints right(Ints a, Ints count) { return vshlq_s32(a, vnegq_s32(count)); }
  template <int count>
  static Ints right(Ints a) {
    return vshrq_n_s32(a, count);
  }
  template <int count>
  static Ints unsigned_right(Ints a) {
    return ints(vshrq_n_u32(u32(a), count));
  }
  static Ints sign(Ints a) { return right<31>(a); }
  static Ints by_sign32(Ints sign, Ints positive, Ints negative) {
    return vbslq_s32(vcltzq_s32(sign), negative, positive);
  }
  static Ints where_greater32(Ints a, Ints b, bool or_equal, Ints index, Ints other) {
    return vbslq_s32(or_equal ? vcgeq_s32(a, b) : vcgtq_s32(a, b), index, other);
  }

  static Ints even_products(Ints a, Ints b) { return ints(vmull_s32(vmovn_s64(s64(a)), vmovn_s64(s64(b)))); }
  static Ints odd_to_even(Ints a) { return ints(vshrq_n_u64(u64(a), 32)); }
  static Ints lower_halves(Ints even, Ints odd) { return vtrn1q_s32(even, odd); }
  static Ints add64(Ints a, Ints b) { return ints(vaddq_s64(s64(a), s64(b))); }
  static Ints right64(Ints a, Ints count) { return ints(vshlq_s64(s64(a), vnegq_s64(s64(count)))); }
  static Ints limit64(Ints a) { return ints(vmovl_s32(vqmovn_s64(s64(a)))); }

  static Floats floats(Ints a) { return vcvtq_f32_s32(a); }
  static Floats bits(Ints a) { return vreinterpretq_f32_s32(a); }
  static Ints as_ints(Floats a) { return vreinterpretq_s32_f32(a); }
  static Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
  static Floats subtract(Floats a, Floats b) { return vsubq_f32(a, b); }
  static Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  static Floats divide(Floats a, Floats b) { return vdivq_f32(a, b); }
  static Floats multiply_add(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  // The number, where the other one is not-a-number.
  static Floats larger(Floats a, Floats b) { return vmaxnmq_f32(a, b); }
  static Floats smaller(Floats a, Floats b) { return vminnmq_f32(a, b); }
  // Ties to even; cut off where int32 ends; not-a-number becomes 0.
  static Ints rounded(Floats a) { return vcvtnq_s32_f32(a); }
  static Ints truncated(Floats a) { return vcvtq_s32_f32(a); }
  static Ints rounded_away(Floats a) { return vcvtaq_s32_f32(a); }
  static Floats distance_to_whole(Floats a) { return vabdq_f32(a, vrndnq_f32(a)); }
  static bool any_above(Floats a, Floats limit) { return vmaxvq_u32(vcgtq_f32(a, limit)) != 0; }

  static Ints pack32(Ints a, Ints b) { return ints(vqmovn_high_s32(vqmovn_s32(a), b)); }
  static Ints pack16(Ints a, Ints b) { return ints(vqmovun_high_s16(vqmovun_s16(s16(a)), s16(b))); }

 private:
  // Places of the bytes of four codes as numbers of 32 bits; beyond the table lie zeros.
  static uint8x16_t spread() {
    const uint8x16_t places = {0, 255, 255, 255, 1, 255, 255, 255, 2, 255, 255, 255, 3, 255, 255, 255};
    return places;
  }
  static void store_word(uint8_t* to, uint32x4_t a) {
    const uint32_t word = vgetq_lane_u32(a, 0);
    std::memcpy(to, &word, sizeof word);
  }
};

}  // namespace
}  // namespace calib8::engine
