// Sums of 16 channels as stored codes, in registers of Arm (strip_neon.h). Everything has internal linkage.
#pragma once

#include <type_traits>

#include "steps.h"
#include "strip_neon.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// How CodesOfSums computes; the others of depthwise layers, which are rare, go through memory.
enum class Rounding { kFloat, kDouble, kSingle, kFloatCurve, kDoubleCurve, kSingleCurve };
constexpr bool is_curve(Rounding kind) { return kind >= Rounding::kFloatCurve; }
constexpr int64_t rescale_kind(Rounding kind) {
  return kind == Rounding::kFloat || kind == Rounding::kFloatCurve     ? Rescale::kFloat
         : kind == Rounding::kDouble || kind == Rounding::kDoubleCurve ? Rescale::kDouble
                                                                       : Rescale::kSingle;
}
struct NoCurve {
  NoCurve(const Activation&, const Memory&) {}
};

// L: vectors of 16 channels.
template <class L, Rounding kind>
class CodesOfSums {
 public:
  CodesOfSums(const Depthwise& step, const Memory& memory, int64_t channel)
      : curve_(step.activation, memory),
        steps_(step.rescale, step.activation, memory, channel),
        end_(step.rescale) {}

  // Codes of the sums of four quarters, in the order of the channels.
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, Ints c, Ints d) const {
    return packing()(half(0, a, b), half(2, c, d));
  }
  // The same in two steps: quarters 0 and 1, then 2 and 3.
  [[gnu::always_inline]] Ints half(int first, Ints a, Ints b) const {
    return V::pack32(steps_(a, first), steps_(b, first + 1));
  }
  [[gnu::always_inline]] auto packing() const {
    return [this](Ints first, Ints other) __attribute__((always_inline)) {
      if constexpr (is_curve(kind)) {
        return end_.codes(curve_, first, other);
      } else {
        return end_.codes(first, other);
      }
    };
  }

 private:
  std::conditional_t<is_curve(kind), CurveRegisters, NoCurve> curve_;
  StripSteps<rescale_kind(kind), false> steps_;
  StripEnd end_;
};

}  // namespace
}  // namespace calib8::engine
