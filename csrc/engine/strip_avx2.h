// A strip of 16 channels in 32-byte vectors: the float rules, and what fixed_strip.h has of the others.
//
// Factors are finite, so there is no NaN; what lies above the clamp is cut off before it becomes an integer,
// what lies below saturates on the way to a byte.
#pragma once

#include "curve_lanes.h"
#include "fixed_strip.h"
#include "strip_activation.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What the convolutions that take strips with AVX2 have in common.
struct StripSums {
  using L = Lanes<32>;
  using Floats = L::Floats;

  static void start(const int32_t* bias, const int32_t*, int32_t* acc) {
    std::memcpy(acc, bias, kStrip * sizeof *acc);
  }

  static void float_codes(const StripRescale& rule, const int32_t* acc, uint8_t* codes) {
    const Floats left = L::multiply(L::floats(L::numbers(acc)), L::numbers(rule.factor));
    const Floats right = L::multiply(L::floats(L::numbers(acc + 8)), L::numbers(rule.factor + 8));
    store_rounded(codes, left, right, rule.most, rule.zero_point, rule.low + rule.zero_point);
  }

  using Fixed = FixedStrip;
  using Curve = CurveTable;

  static void float_steps(const StripRescale& rule, const int32_t* acc, int16_t* steps) {
    const L::Ints left = L::rounded(L::multiply(L::floats(L::numbers(acc)), L::numbers(rule.factor)));
    const L::Ints right =
        L::rounded(L::multiply(L::floats(L::numbers(acc + 8)), L::numbers(rule.factor + 8)));
    L::store(steps, _mm256_permute4x64_epi64(L::pack32(left, right), 0xD8));
  }

  static void curve_words(const CurveTable& curve, const int16_t* steps, int32_t low, int32_t high,
                          uint8_t* codes) {
    L::Ints first = L::load(steps), second = L::load(steps + kStrip);
    if (curve.whole) {
      CurveWords<L, true>(curve).both(first, second);
    } else {
      CurveWords<L, false>(curve).both(first, second);
    }
    const L::Ints bytes = _mm256_permute4x64_epi64(L::pack16(first, second), 0xD8);
    L::store(codes, L::clamp8(bytes, L::set8(low), L::set8(high)));
  }

  static void look_up(const uint8_t* table, uint8_t* codes, int64_t count) {
    for (int64_t i = 0; i < count; ++i) codes[i] = table[codes[i]];
  }

  static void add(const SumRule& rule, const uint8_t* lhs, const uint8_t* rhs, uint8_t* codes) {
    if (rule.kind != SumRule::kFloatSum) return add_strips(rule, lhs, rhs, codes);
    const Floats left = L::all(static_cast<float>(rule.lhs)), right = L::all(static_cast<float>(rule.rhs));
    const Floats fixed = L::all(static_cast<float>(rule.fixed));
    Floats sums[2];
    for (int half = 0; half < 2; ++half) {
      const Floats inner = L::multiply_add(raw_codes(rhs + 8 * half, rule.rhs_shift), right, fixed);
      sums[half] = L::multiply_add(raw_codes(lhs + 8 * half, rule.lhs_shift), left, inner);
    }
    store_rounded(codes, sums[0], sums[1], static_cast<float>(rule.high - rule.output_shift),
                  static_cast<int32_t>(rule.output_shift), static_cast<int32_t>(rule.low));
  }

 private:
  // 16 float32 values, clamped above, as stored codes.
  static void store_rounded(uint8_t* codes, Floats left, Floats right, float most, int32_t shift,
                            int32_t low) {
    const Floats above = L::all(most);
    const L::Ints first = L::rounded(L::smaller(left, above)), second = L::rounded(L::smaller(right, above));
    const L::Ints words = L::add16(L::pack32(first, second), L::set16(shift));
    const __m128i bytes = L::lane(L::in_order(L::pack16(words, words)), 0);
    Lanes<16>::store(codes, _mm_max_epu8(bytes, Lanes<16>::set8(low)));
  }
  // 8 stored codes as float32 values of raw codes.
  static Floats raw_codes(const uint8_t* codes, int64_t shift) {
    return L::floats(L::subtract32(L::numbers(codes), L::all(static_cast<int32_t>(shift))));
  }
};

}  // namespace
}  // namespace calib8::engine
