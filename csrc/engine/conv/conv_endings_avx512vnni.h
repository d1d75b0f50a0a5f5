// How the sums of a panel end: which form its rule, function and residual take in registers, with the
// constants for it.
//
// Everything has internal linkage.
#pragma once

#include "conv_steps_avx512vnni.h"
#include "split_factors.h"
#include "split_rows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kLanes = 16;  // output channels per unit of panel width

// The channels of a panel: the first one's place in the arrays per channel, and how many there are, padded
// ones included.
struct PanelChannels {
  int64_t place, count;
};

// Whether the residual is a FloatSum, with factors that keep sums of codes far from the end of int32.
inline bool adds_floats(const SumRule& sum) {
  constexpr double kTame = 1 << 20;
  return sum.kind == SumRule::kFloatSum && sum.lhs < kTame && sum.rhs < kTame && sum.fixed < kTame &&
         sum.lhs > -kTame && sum.rhs > -kTame && sum.fixed > -kTame;
}

// float32 factors: which of their endings fits.
inline Ending float_ending(const Conv& step) {
  const Rescale& rule = step.rescale;
  if (adds_floats(step.sum)) return step.residual_right != 0 ? Ending::kSumRight : Ending::kSumLeft;
  if (rule.low != 0 || rule.high != 255) return Ending::kFloat;
  return rule.zero_point == 0 ? Ending::kPlain : Ending::kUnclamped;
}

// All of them are small.
inline bool below_one(const float* factor, int64_t channels) {
  bool small = true;
  for (int64_t c = 0; c < channels; ++c) small = small && factor[c] < 1.0F && factor[c] > -1.0F;
  return small;
}

// Constants of a panel with FixedRescale that has no SplitFactors, and those of a curve.
struct FixedPanel {
  FixedLanes lanes[4], negative[4];
  CurveTable curve;
};

// FixedLanes of all channels, unless a shift is too large for them.
inline bool prepare_all(const int32_t* multiplier, const int32_t* shift, int64_t channels, bool single,
                        FixedLanes* lanes) {
  for (int64_t c = 0; c < channels; ++c) {
    if (shift[c] >= 0 && multiplier[c] != 0) return false;
  }
  for (int64_t c = 0; c < channels; c += kLanes) {
    prepare_lanes(multiplier + c, shift + c, single, lanes[c / kLanes]);
  }
  return true;
}

// FixedRescale with factors of their own below 0, which may be too large.
inline Ending sided_ending(const Activation& activation, const Memory& memory, const PanelChannels& channels,
                           FixedPanel& fixed, bool single) {
  const int32_t* multiplier = memory.constant<int32_t>(activation.negative) + channels.place;
  const int32_t* shift = memory.constant<int32_t>(activation.negative_shift) + channels.place;
  if (!prepare_all(multiplier, shift, channels.count, single, fixed.negative)) return Ending::kSums;
  return single ? Ending::kSingleSides : Ending::kDoubleSides;
}

// FixedRescale with SplitFactors.
inline Ending split_ending(const Conv& step) {
  if (step.activation.kind == Activation::kTwoSided) return Ending::kSplitSides;
  if (step.activation.kind == Activation::kCurve) return Ending::kSplitCurve;
  if (!adds_floats(step.sum)) return nudge_has_sign(step.rescale) ? Ending::kSplitSigned : Ending::kSplit;
  return step.residual_right != 0 ? Ending::kSplitSumRight : Ending::kSplitSumLeft;
}

// FixedRescale: its ending and constants, those of float32 where the shifts allow it.
inline Ending fixed_ending_of(const Conv& step, const Memory& memory, const PanelChannels& channels,
                              FixedPanel& fixed) {
  const Rescale& rule = step.rescale;
  const int32_t* multiplier = memory.constant<int32_t>(rule.factor) + channels.place;
  const int32_t* shift = memory.constant<int32_t>(rule.shift) + channels.place;
  const bool single = rule.kind == Rescale::kSingle, curve = step.activation.kind == Activation::kCurve;
  if (curve) fixed.curve = CurveTable(step.activation, memory);
  if (memory.split->fit(channels.place, channels.count)) return split_ending(step);
  if (rule.kind == Rescale::kAway) return Ending::kSums;
  if (!prepare_all(multiplier, shift, channels.count, single, fixed.lanes)) return Ending::kSums;
  if (curve) return single ? Ending::kSingleCurve : Ending::kDoubleCurve;
  if (step.activation.kind == Activation::kNone) return single ? Ending::kSingle : Ending::kDouble;
  return sided_ending(step.activation, memory, channels, fixed, single);
}

// FloatRescale: its ending, and the constants of a curve.
inline Ending float_ending_of(const Conv& step, const Memory& memory, const PanelChannels& channels,
                              FixedPanel& fixed) {
  const Activation& activation = step.activation;
  if (activation.kind == Activation::kCurve) {  // whose steps are known to fit int32
    fixed.curve = CurveTable(activation, memory);
    return CurveTable::is_whole(activation) ? Ending::kWholeCurve : Ending::kCurve;
  }
  if (!below_one(memory.constant<float>(step.rescale.factor) + channels.place, channels.count)) {
    return Ending::kSums;
  }
  if (activation.kind == Activation::kNone) return float_ending(step);
  const float* negative = memory.constant<float>(activation.negative) + channels.place;
  return below_one(negative, channels.count) ? Ending::kTwoSided : Ending::kSums;
}

// How the sums of a panel end. Where its factors are too large for the vector formulas: as sums.
inline Ending ending_of(const Conv& step, const Memory& memory, const PanelChannels& channels,
                        FixedPanel& fixed) {
  switch (step.rescale.kind) {
    case Rescale::kFloat:
      return float_ending_of(step, memory, channels, fixed);
    case Rescale::kSingle:
    case Rescale::kDouble:
    case Rescale::kAway:
      return fixed_ending_of(step, memory, channels, fixed);
    default:
      return Ending::kSums;
  }
}

inline bool is_split(Ending ending) {
  return ending == Ending::kSplit || ending == Ending::kSplitSigned || ending == Ending::kSplitSumLeft ||
         ending == Ending::kSplitSumRight || ending == Ending::kSplitSides || ending == Ending::kSplitCurve;
}
inline bool sums_up(Ending ending) {
  return ending == Ending::kSumLeft || ending == Ending::kSumRight || ending == Ending::kSplitSumLeft ||
         ending == Ending::kSplitSumRight;
}

}  // namespace
}  // namespace calib8::engine
