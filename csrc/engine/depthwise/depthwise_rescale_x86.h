// Sums of one block of channels as stored codes, in registers.
//
// float32 factors as they are; fixed-point ones in float32 where their shifts allow it (split_factors.h),
// else in integers (fixed_factors.h), for steps whose sums and results stay below 2^30. Everything has
// internal linkage.
#pragma once

#include <type_traits>

#include "curve_lanes.h"
#include "fixed_steps.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// How CodesOfSums computes: kTwoSided, kCurve and kWholeCurve are kFloat with a function behind it, kFromZero
// is kFloat where zero_point is 0 and the clamp 0 … 255, which packing to bytes does. kSplit and its kin are
// kSingle and kDouble in float32, signed where the nudge is.
enum class Rounding {
  kFloat,
  kFromZero,
  kTwoSided,
  kCurve,
  kWholeCurve,
  kSplit,
  kSplitSigned,
  kSplitSides,
  kSplitCurve,
  kSplitWholeCurve,
};
constexpr bool is_whole_curve(Rounding kind) {
  return kind == Rounding::kWholeCurve || kind == Rounding::kSplitWholeCurve;
}
constexpr bool is_curve(Rounding kind) {
  return is_whole_curve(kind) || kind == Rounding::kCurve || kind == Rounding::kSplitCurve;
}

// rint(float32(acc) · factor); with `sides`, other factors below 0.
template <class L, int count, bool sides>
class FloatSteps {
  using Ints = typename L::Ints;

 public:
  static constexpr bool kTwice = false;

  static LayerFactors source(const LayerFactors& layer, int64_t) { return layer; }

  template <class Load>
  FloatSteps(const LayerFactors& layer, const Load& load) {
    for (int i = 0; i < count; ++i) factor_[i] = load(layer.multiplier, i);
    if constexpr (sides) {
      for (int i = 0; i < count; ++i) negative_[i] = load(layer.negative, i);
    }
  }
  [[gnu::always_inline]] Ints operator()(Ints acc, int i) const {
    Ints factor = factor_[i];
    if constexpr (sides) factor = L::by_sign32(acc, factor, negative_[i]);
    return L::rounded(L::multiply(L::floats(acc), L::bits(factor)));
  }

 private:
  Ints factor_[count], negative_[sides ? count : 1];
};

template <class L, Rounding kind>
struct StepsOf {
  using Steps = FloatSteps<L, 4, false>;  // also behind kFromZero, kCurve and kWholeCurve
};
template <class L>
struct StepsOf<L, Rounding::kTwoSided> {
  using Steps = FloatSteps<L, 4, true>;
};
template <class L>
struct StepsOf<L, Rounding::kSplit> {
  using Steps = SplitNumbers<L, 4, false, SplitUse::kCodes>;
};
template <class L>
struct StepsOf<L, Rounding::kSplitSigned> {
  using Steps = SplitNumbers<L, 4, true, SplitUse::kCodes>;
};
template <class L>
struct StepsOf<L, Rounding::kSplitSides> {
  using Steps = SplitSides<L, 4>;
};
template <class L>
struct StepsOf<L, Rounding::kSplitCurve> {
  using Steps = SplitNumbers<L, 4, true, SplitUse::kSteps>;
};
template <class L>
struct StepsOf<L, Rounding::kSplitWholeCurve> : StepsOf<L, Rounding::kSplitCurve> {};
struct NoTable {
  NoTable(const Activation&, const Memory&) {}
};

// L: vectors, and `words`, which loads a quarter of the constants of a block.
template <class L, Rounding kind>
class CodesOfSums {
  using Ints = typename L::Ints;
  using Steps = typename StepsOf<L, kind>::Steps;
  struct Plain {
    const Ints &low, &high;
    [[gnu::always_inline]] Ints operator()(Ints first, Ints second) const {
      const Ints codes = L::pack16(first, second);
      return kind == Rounding::kFromZero ? codes : L::clamp8(codes, low, high);
    }
  };
  struct Curves {
    CurveWords<Lanes<sizeof(Ints)>, is_whole_curve(kind)> curve;
    const Ints &low, &high;
    [[gnu::always_inline]] Ints operator()(Ints first, Ints second) const {
      curve.both(first, second);
      const Ints codes = L::pack16(first, second);
      return is_whole_curve(kind) ? codes : L::clamp8(codes, low, high);
    }
  };

 public:
  CodesOfSums(const Depthwise& step, const Memory& memory, int64_t channel)
      : CodesOfSums(step.rescale, step.activation, memory, channel) {}
  CodesOfSums(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : curve_(activation, memory),
        steps_(Steps::source({rule, activation, memory, channel}, L::kChannels), quarter),
        zero_(L::set16(static_cast<int32_t>(Steps::kTwice ? 2 * rule.zero_point + 1 : rule.zero_point))),
        low_(L::set8(static_cast<int32_t>(rule.low))),
        high_(L::set8(static_cast<int32_t>(rule.high))) {}

  // Codes of the sums of four quarters, in the order of the channels.
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, Ints c, Ints d) const {
    return packed(half(0, a, b), half(2, c, d));
  }
  // The same in two steps: quarters 0 and 1, then 2 and 3.
  [[gnu::always_inline]] Ints half(int first, Ints a, Ints b) const {
    const Ints steps = L::pack32(steps_(a, first), steps_(b, first + 1));
    if constexpr (is_curve(kind) || kind == Rounding::kFromZero) return steps;
    const Ints words = L::add16(steps, zero_);
    return Steps::kTwice ? L::template right16<1>(words) : words;
  }
  // What makes codes of two halves, with constants in registers where there are many.
  [[gnu::always_inline]] auto packing() const {
    if constexpr (is_curve(kind)) {
      return Curves{CurveWords<Lanes<sizeof(Ints)>, is_whole_curve(kind)>(curve_), low_, high_};
    } else {
      return Plain{low_, high_};
    }
  }
  [[gnu::always_inline]] Ints packed(Ints first, Ints second) const { return packing()(first, second); }

 private:
  static Ints quarter(const void* numbers, int i) {
    return L::words(static_cast<const uint8_t*>(numbers), i);
  }

  std::conditional_t<is_curve(kind), CurveTable, NoTable> curve_;
  Steps steps_;
  Ints zero_, low_, high_;
};

}  // namespace
}  // namespace calib8::engine
