// Fixed-point rules of a layer's sums in vectors of any length: whole numbers that are right up to 16 bits,
// where packing saturates them.
//
// Constants come in `count` vectors, of which a `load(numbers, i)` makes the i-th: `numbers` are those of all
// channels. Everything here has internal linkage.
#pragma once

#include <immintrin.h>

#include "fixed_factors.h"
#include "split_factors.h"
#include "view.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The factors of a layer from a channel on, and those of sums below 0.
struct LayerFactors {
  int64_t kind;
  const int32_t *multiplier, *shift, *negative, *negative_shift;

  LayerFactors(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : kind(rule.kind),
        multiplier(channels_of(memory, rule.factor, channel)),
        shift(channels_of(memory, rule.shift, channel)),
        negative(channels_of(memory, activation.negative, channel)),
        negative_shift(channels_of(memory, activation.negative_shift, channel)) {}

 private:
  static const int32_t* channels_of(const Memory& memory, int64_t constant, int64_t channel) {
    const auto* first = memory.constant<int32_t>(constant);
    return first == nullptr ? nullptr : first + channel;
  }
};

// Their constants for up to 64 channels; those of sums below 0 are at 1. They are written in place.
struct SplitLayer {
  SplitFactors side[2];
  bool fits;

  SplitLayer() = default;
  SplitLayer(const LayerFactors& layer, int64_t channels, SplitUse use) {
    set(layer, channels, use, kMostSplitShift);
  }
  bool set(const LayerFactors& layer, int64_t channels, SplitUse use, int32_t most) {
    fits = split_factors(layer.multiplier, layer.shift, channels, layer.kind, most, side[0], use);
    if (layer.negative == nullptr) return fits;
    fits &= split_factors(layer.negative, layer.negative_shift, channels, layer.kind, most, side[1], use);
    return fits;
  }
};
struct FixedLayer {
  FixedFactors side[2];

  // Whether all factors are taken; `narrow` promises that sums stay below 2^30.
  bool set(const LayerFactors& layer, int64_t channels, bool narrow) {
    const bool fits = fixed_factors(layer.kind, layer.multiplier, layer.shift, channels, narrow, side[0]);
    if (layer.negative == nullptr) return fits;
    return fixed_factors(layer.kind, layer.negative, layer.negative_shift, channels, narrow, side[1]) && fits;
  }
};

// call() while vectors of 16 and 32 bytes round down. What it calls is not inlined: no compiler knows that
// arithmetic depends on it. Within another one it costs a look at the mode.
template <class Call>
inline void rounded_down(const Call& call) {
  const unsigned before = _mm_getcsr();
  const unsigned down = (before & ~static_cast<unsigned>(_MM_ROUND_MASK)) | _MM_ROUND_DOWN;
  if (before == down) return call();
  _mm_setcsr(down);
  call();
  _mm_setcsr(before);
}

// acc·high + (acc·low + nudge), each rounded down (split_factors.h).
template <class L>
[[gnu::always_inline]] inline typename L::Floats split_sum(typename L::Ints acc, typename L::Ints high,
                                                           typename L::Ints low, typename L::Floats nudge) {
  const auto value = L::floats(acc);
  return L::multiply_add_down(value, L::bits(high), L::multiply_add_down(value, L::bits(low), nudge));
}

// ⌊2·v + 2·n⌋; with `use` kSteps, ⌊v + n + 1/2⌋.
template <class L, int count, bool with_sign, SplitUse use>
class SplitNumbers {
  using Ints = typename L::Ints;

 public:
  static constexpr bool kTwice = use == SplitUse::kCodes;

  static SplitLayer source(const LayerFactors& layer, int64_t channels) { return {layer, channels, use}; }

  template <class Load>
  SplitNumbers(const SplitLayer& layer, const Load& load) {
    const SplitFactors& split = layer.side[0];
    for (int i = 0; i < count; ++i) {
      high_[i] = load(split.high, i), low_[i] = load(split.low, i), nudge_[i] = load(split.nudge, i);
    }
    for (int i = 0; i < kSigns; ++i) minus_[i] = load(split.minus, i);
  }
  [[gnu::always_inline]] Ints operator()(Ints acc, int i) const {
    auto nudge = L::bits(nudge_[i]);
    if constexpr (with_sign) nudge = L::turned32(acc, nudge, L::bits(minus_[i]));
    const auto sum = split_sum<L>(acc, high_[i], low_[i], nudge);
    return L::rounded_down(kTwice ? sum : L::add_down(sum, L::all(0.5F)));
  }

 private:
  static constexpr int kSigns = with_sign ? count : 1;
  Ints high_[count], low_[count], nudge_[count], minus_[kSigns];
};

// ⌊2·v + 2·n⌋ with other factors below 0.
template <class L, int count>
class SplitSides {
  using Ints = typename L::Ints;

 public:
  static constexpr bool kTwice = true;

  static SplitLayer source(const LayerFactors& layer, int64_t channels) {
    return {layer, channels, SplitUse::kCodes};
  }

  template <class Load>
  SplitSides(const SplitLayer& layer, const Load& load) {
    for (int side = 0; side < 2; ++side) {
      const SplitFactors& split = layer.side[side];
      for (int i = 0; i < count; ++i) {
        high_[side][i] = load(split.high, i), low_[side][i] = load(split.low, i);
        nudge_[side][i] = load(side == 0 ? split.nudge : split.minus, i);
      }
    }
  }
  [[gnu::always_inline]] Ints operator()(Ints acc, int i) const {
    const auto side = [&](const Ints(&both)[2][count]) __attribute__((always_inline)) {
      return L::by_sign32(acc, both[0][i], both[1][i]);
    };
    return L::rounded_down(split_sum<L>(acc, side(high_), side(low_), L::bits(side(nudge_))));
  }

 private:
  Ints high_[2][count], low_[2][count], nudge_[2][count];
};

// The forms of fixed_factors.h; with `sides`, other factors below 0.
template <class L, int count, bool sides>
class IntegerNumbers {
  using Ints = typename L::Ints;

 public:
  static constexpr bool kTwice = false;

  template <class Load>
  IntegerNumbers(const FixedLayer& layer, const Load& load) : half_(L::set64(layer.side[0].half)) {
    for (int side = 0; side < (sides ? 2 : 1); ++side) {
      const FixedFactors& factors = layer.side[side];
      for (int i = 0; i < count; ++i) {
        multiplier_[side][i] = load(factors.multiplier, i), left_[side][i] = load(factors.left, i);
        most_[side][i] = load(factors.most, i), least_[side][i] = load(factors.least, i);
        round_[side][i] = load(factors.round, i), sign_[side][i] = load(factors.sign, i);
        right_[side][i] = load(factors.right, i);
      }
    }
  }
  [[gnu::always_inline]] Ints operator()(Ints acc, int i) const {
    const auto of = [&](const Ints(&constants)[kSides][count]) __attribute__((always_inline)) {
      if constexpr (sides) return L::by_sign32(acc, constants[0][i], constants[1][i]);
      return constants[0][i];
    };
    const Ints a = L::left(L::max32(L::min32(acc, of(most_)), of(least_)), of(left_)), m = of(multiplier_);
    const Ints even = L::add64(L::even_products(a, m), half_);
    const Ints odd = L::add64(L::even_products(L::odd_to_even(a), L::odd_to_even(m)), half_);
    const Ints x = L::upper_halves(even, odd), away = L::and_bits(L::sign(x), of(sign_));
    return L::right(L::add32(L::add32(x, of(round_)), away), of(right_));
  }

 private:
  static constexpr int kSides = sides ? 2 : 1;
  Ints half_, multiplier_[kSides][count], least_[kSides][count], most_[kSides][count], left_[kSides][count];
  Ints round_[kSides][count], sign_[kSides][count], right_[kSides][count];
};

}  // namespace
}  // namespace calib8::engine
