// Sums of one block of channels as stored codes, in registers.
//
//   float    rint(float32(acc) · factor)                    single   (⌊acc·m / 2^32⌋ + 2^(r−33)) >> (r − 32)
//   double   x = (2·acc·m + 2^31) >> 32, then (x + 2^(e−1) − [x < 0]) >> e
//
// r = 31 − shift ≥ 33 and e = −shift ≥ 1: these forms are for steps whose sums and results stay below 2^30
// and whose shifts are −2 or less. Everything has internal linkage.
#pragma once

#include <type_traits>

#include "curve_lanes.h"
#include "depthwise_lanes_x86.h"
#include "split_factors.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// How CodesOfSums computes: kSplit and kSplitSigned are kSingle or kDouble in float32 (split_factors.h).
// kTwoSided, kCurve and kWholeCurve are kFloat with a function behind it.
enum class Rounding { kFloat, kSingle, kDouble, kSplit, kSplitSigned, kTwoSided, kCurve, kWholeCurve };
constexpr bool is_curve(Rounding kind) { return kind == Rounding::kCurve || kind == Rounding::kWholeCurve; }
constexpr bool is_float(Rounding kind) {
  return kind == Rounding::kFloat || kind == Rounding::kTwoSided || is_curve(kind);
}
struct NoTable {
  NoTable(const Activation&, const Memory&) {}
};

// L: vectors, and `words`, which loads a quarter of the constants of a block.
template <class L, Rounding kind>
class CodesOfSums {
  using Ints = typename L::Ints;
  struct Plain {
    const Ints &low, &high;
    [[gnu::always_inline]] Ints operator()(Ints first, Ints second) const {
      return L::clamp8(L::pack16(first, second), low, high);
    }
  };
  struct Curves {
    CurveWords<Lanes<sizeof(Ints)>, kind == Rounding::kWholeCurve> curve;
    const Ints &low, &high;
    [[gnu::always_inline]] Ints operator()(Ints first, Ints second) const {
      curve.both(first, second);
      const Ints codes = L::pack16(first, second);
      return kind == Rounding::kWholeCurve ? codes : L::clamp8(codes, low, high);
    }
  };
  static constexpr bool kSplits = kind == Rounding::kSplit || kind == Rounding::kSplitSigned;

 public:
  CodesOfSums(const Depthwise& step, const Memory& memory, int64_t channel)
      : CodesOfSums(step.rescale, step.activation, memory, channel) {}
  CodesOfSums(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : curve_(activation, memory),
        zero_(L::set16(static_cast<int32_t>(kSplits ? 2 * rule.zero_point + 1 : rule.zero_point))),
        low_(L::set8(static_cast<int32_t>(rule.low))),
        high_(L::set8(static_cast<int32_t>(rule.high))) {
    const uint8_t* factors = memory.constant<uint8_t>(rule.factor) + channel * 4;
    const uint8_t* shifts = is_float(kind) ? nullptr : memory.constant<uint8_t>(rule.shift) + channel * 4;
    for (int i = 0; i < 4; ++i) {
      factor_[i] = L::words(factors, i);
      if constexpr (kSplits) {
        set_split(i, L::words(shifts, i), rule.kind == Rescale::kSingle);
      } else if constexpr (kind == Rounding::kTwoSided) {
        odd_factor_[i] = L::words(memory.constant<uint8_t>(activation.negative) + channel * 4, i);
      } else if constexpr (!is_float(kind)) {
        odd_factor_[i] = L::odd_to_even(factor_[i]);
        set_shift(i, L::words(shifts, i));
      }
    }
  }

  // Codes of the sums of four quarters, in the order of the channels.
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, Ints c, Ints d) const {
    return packed(half(0, a, b), half(2, c, d));
  }
  // The same in two steps: quarters 0 and 1, then 2 and 3.
  [[gnu::always_inline]] Ints half(int first, Ints a, Ints b) const {
    const Ints steps = L::pack32(scaled(a, first), scaled(b, first + 1));
    if constexpr (is_curve(kind)) return steps;
    const Ints words = L::add16(steps, zero_);
    if constexpr (kSplits) return L::halve16(words);
    return words;
  }
  // What makes codes of two halves, with constants in registers where there are many.
  [[gnu::always_inline]] auto packing() const {
    if constexpr (is_curve(kind)) {
      return Curves{CurveWords<Lanes<sizeof(Ints)>, kind == Rounding::kWholeCurve>(curve_), low_, high_};
    } else {
      return Plain{low_, high_};
    }
  }
  [[gnu::always_inline]] Ints packed(Ints first, Ints second) const { return packing()(first, second); }

 private:
  // m·2^(shift − 31) as what the forms above need: constants to add, shifts to the right.
  void set_shift(int i, Ints shift) {
    constexpr int kWords = sizeof(Ints) / 4;
    alignas(64) int32_t shifts[kWords], rounds[kWords];
    L::store(shifts, shift);
    for (int lane = 0; lane < kWords; ++lane) {
      const int32_t right = kind == Rounding::kSingle ? -1 - shifts[lane] : -shifts[lane];
      rounds[lane] = int32_t{1} << (right - 1);
      shifts[lane] = right;
    }
    right_[i] = L::load(shifts);
    round_[i] = L::load(rounds);
  }

  // SplitFactors in the places of other constants.
  void set_split(int i, Ints shift, bool single) {
    constexpr int kWords = sizeof(Ints) / 4;
    alignas(64) int32_t factors[kWords], shifts[kWords];
    L::store(factors, factor_[i]);
    L::store(shifts, shift);
    SplitFactors split;
    split_factors(factors, shifts, kWords, single, kMostSplitShift, split);
    factor_[i] = L::load(split.high);
    odd_factor_[i] = L::load(split.low);
    round_[i] = L::load(split.nudge);
  }

  [[gnu::always_inline]] Ints scaled(Ints acc, int i) const {
    if constexpr (kSplits) {
      constexpr bool kSigned = kind == Rounding::kSplitSigned;
      return L::template split<kSigned>(acc, factor_[i], odd_factor_[i], round_[i]);
    } else if constexpr (kind == Rounding::kTwoSided) {
      const auto factor = L::bits(L::by_sign32(acc, factor_[i], odd_factor_[i]));
      return L::rounded(L::multiply(L::floats(acc), factor));
    } else if constexpr (is_float(kind)) {
      return L::rounded(L::multiply(L::floats(acc), L::bits(factor_[i])));
    } else {
      if constexpr (kind == Rounding::kDouble) acc = L::add32(acc, acc);  // 2·acc·m >> 32 is acc·m >> 31
      Ints even = L::even_products(acc, factor_[i]),
           odd = L::even_products(L::odd_to_even(acc), odd_factor_[i]);
      if constexpr (kind == Rounding::kSingle) {
        return L::right(L::add32(L::upper_halves(even, odd), round_[i]), right_[i]);
      }
      const Ints high = L::upper_halves(L::add64(even, half_), L::add64(odd, half_));
      return L::right(L::add32(L::add32(high, round_[i]), L::sign(high)), right_[i]);
    }
  }

  std::conditional_t<is_curve(kind), CurveTable, NoTable> curve_;
  Ints zero_, low_, high_;
  Ints half_ = L::set64(int64_t{1} << 31);  // of what the upper half of 64 bits counts
  Ints factor_[4];
  static constexpr int kFixed = is_float(kind) ? 1 : 4;
  // Those of the odd places, for the lower halves of 64 bits; kSplit: low; kTwoSided: of sums below 0.
  Ints odd_factor_[kind == Rounding::kTwoSided ? 4 : kFixed];
  Ints round_[kFixed];  // kSplit: nudge
  Ints right_[kSplits ? 1 : kFixed];
};

}  // namespace
}  // namespace calib8::engine
