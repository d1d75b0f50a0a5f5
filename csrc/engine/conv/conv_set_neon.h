// What the sets of Arm have in common in convolutions (conv_tiles.h): cells of signed bytes, and what becomes
// of sums.
//
//   Σ x·w = Σ (x − 128)·w + 128 · Σ w,    x stored codes, x − 128 = x ^ 0x80 as a signed byte
//
// Everything here has internal linkage.
#pragma once

#include "conv_tiles.h"
#include "elementwise/elementwise_rules.h"
#include "lookup.h"
#include "plain_words_end.h"
#include "strip_neon.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What becomes of the sums of a strip.
struct NeonSums {
  using WordsEnd = PlainWordsEnd;
  using Fixed = NeonStrip;
  using Curve = CurveRegisters;

  static void add(const SumRule& rule, const uint8_t* lhs, const uint8_t* rhs, uint8_t* codes) {
    const int64_t zero = rule.kind == SumRule::kFloatSum ? 0 : rule.output_zero;
    const Ints shift = V::set16(static_cast<int32_t>(zero + rule.output_shift));
    const auto apply = [&](const auto& sum) {
      Ints steps[4];
      for (int i = 0; i < 4; ++i) steps[i] = sum(V::numbers(lhs + 4 * i), V::numbers(rhs + 4 * i), 0);
      const Ints first = V::add16(V::pack32(steps[0], steps[1]), shift);
      const Ints other = V::add16(V::pack32(steps[2], steps[3]), shift);
      V::store(codes, V::clamp8(V::pack16(first, other), V::set8(static_cast<int32_t>(rule.low)),
                                V::set8(static_cast<int32_t>(rule.high))));
    };
    switch (rule.kind) {
      case SumRule::kFloatSum:
        return apply(FloatSum<true>(rule));
      case SumRule::kDequantized:
        return apply(DequantizedSum(rule));
      case SumRule::kScaled:
        return apply(ScaledSum(rule));
      default:
        return apply(AlignedSum(rule));
    }
  }

  // Codes of whole strips through a table.
  static void look_up(const uint8_t* table, uint8_t* codes, int64_t count) {
    engine::look_up(table, codes, codes, count);
  }

  // What `Fixed` leaves over: nothing.
  static void float_steps(const StripRescale& rule, const int32_t* acc, int16_t* steps) {
    engine::float_codes(rule, acc, steps);
  }
  static void float_codes(const StripRescale& rule, const int32_t* acc, uint8_t* codes) {
    engine::float_codes(rule, acc, codes);
  }
  static void curve_words(const Curve& curve, const int16_t* steps, int32_t low, int32_t high,
                          uint8_t* codes) {
    for (int i = 0; i < 2 * kStrip; i += kStrip) {
      const int16x8_t first = curve(vld1q_s16(steps + i)), other = curve(vld1q_s16(steps + i + 8));
      V::store(codes + i, V::clamp8(V::pack16(V::ints(first), V::ints(other)), V::set8(low), V::set8(high)));
    }
  }
};

// Cells without an offset: stored codes minus 128.
struct SignedCells : NeonSums {
  using Cell = int8_t;
  static constexpr bool kDirect = false;

  static void take(const uint8_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      vst1q_s8(target + i, vreinterpretq_s8_u8(veorq_u8(vld1q_u8(source + i), vdupq_n_u8(0x80))));
    }
  }

  // The lower bytes of 16-bit codes, and the upper ones, which have a sign already.
  static void take(const int16_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      const uint8x16x2_t planes = vld2q_u8(reinterpret_cast<const uint8_t*>(source + i));
      vst1q_s8(target + i, vreinterpretq_s8_u8(veorq_u8(planes.val[0], vdupq_n_u8(0x80))));
    }
  }
  static void take_upper(const int16_t* source, int64_t count, Cell* target) {
    for (int64_t i = 0; i < count; i += 16) {
      vst1q_s8(target + i, vld2q_s8(reinterpret_cast<const int8_t*>(source + i)).val[1]);
    }
  }

  static void start(const int32_t* bias, const int32_t* weight_sums, int32_t* acc) {
    for (int i = 0; i < kStrip; i += 4) {
      vst1q_s32(acc + i, vaddq_s32(vld1q_s32(bias + i), vshlq_n_s32(vld1q_s32(weight_sums + i), 7)));
    }
  }

  // Four bytes, repeated.
  static int8x16_t four(const void* place) {
    int32_t bytes;
    std::memcpy(&bytes, place, sizeof bytes);
    return vreinterpretq_s8_s32(vdupq_n_s32(bytes));
  }
};

}  // namespace
}  // namespace calib8::engine
