// The fixed-point rules of a strip of 16 channels in 32-byte vectors, with the function behind the layer.
// Away has the form in float32 alone.
//
// Constants in float32 where the shifts allow it (split_factors.h), else in integers (fixed_factors.h). Sums
// of two pixels are packed to words together: no step is taken back to memory before its code is known.
// Everything here has internal linkage.
#pragma once

#include "curve_lanes.h"
#include "fixed_steps.h"
#include "strip_activation.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

class FixedStrip {
  using L = Lanes<32>;

 public:
  FixedStrip(const Rescale& rule, const Activation& activation, const Memory& memory, int64_t channel)
      : FixedStrip(rule, activation) {
    if (!rule.fixed()) return;
    const LayerFactors layer(rule, activation, memory, channel);
    const bool curve = function_ == Activation::kCurve;  // whose steps are known to fit int32
    if (split_.set(layer, kStrip, curve ? SplitUse::kSteps : SplitUse::kCodes,
                   curve ? kMostSplitShift : -1)) {
      form_ = Form::kSplit;
    } else {
      take_integers(layer, false);
    }
  }
  // In integers only; `narrow` promises that sums stay below 2^30.
  static FixedStrip of_integers(const Rescale& rule, const Activation& activation, const Memory& memory,
                                int64_t channel, bool narrow) {
    FixedStrip strip(rule, activation);
    if (rule.fixed()) strip.take_integers({rule, activation, memory, channel}, narrow);
    return strip;
  }

  // call(), which makes codes of strips and computes with float32 nowhere else, with the mode that they need.
  template <class Call>
  static void around(const Call& call) {
    rounded_down(call);
  }

  // Whether there are vectors for the factors of the strip.
  bool taken() const { return form_ != Form::kNone; }

  // Codes of `pixels` pixels, whose sums lie `stride` apart.
  void rows(const CurveTable& curve, const int32_t* acc, int64_t stride, int64_t pixels,
            const StripTarget& target) const {
    const Rows rows{acc, stride, pixels, target};
    if (form_ == Form::kInteger) return integer_rows(curve, rows);
    rounded_down([&] { split_rows(curve, rows); });
  }

 private:
  enum class Form { kNone, kSplit, kInteger };

  FixedStrip(const Rescale& rule, const Activation& activation)
      : rule_(rule), function_(activation.kind), form_(Form::kNone) {}
  void take_integers(const LayerFactors& layer, bool narrow) {
    if (fixed_.set(layer, kStrip, narrow)) form_ = Form::kInteger;
  }

  struct Rows {
    const int32_t* acc;
    int64_t stride, pixels;
    const StripTarget& target;
  };

  [[gnu::noinline]] void split_rows(const CurveTable& curve, const Rows& rows) const {
    if (function_ == Activation::kTwoSided) return codes(SplitSides<L, 2>(split_, load), rows);
    if (function_ == Activation::kCurve) {
      return through(curve, SplitNumbers<L, 2, true, SplitUse::kSteps>(split_, load), rows);
    }
    if (nudge_has_sign(rule_)) return codes(SplitNumbers<L, 2, true, SplitUse::kCodes>(split_, load), rows);
    codes(SplitNumbers<L, 2, false, SplitUse::kCodes>(split_, load), rows);
  }
  [[gnu::noinline]] void integer_rows(const CurveTable& curve, const Rows& rows) const {
    if (function_ == Activation::kTwoSided) return codes(IntegerNumbers<L, 2, true>(fixed_, load), rows);
    const IntegerNumbers<L, 2, false> steps(fixed_, load);
    if (function_ == Activation::kCurve) return through(curve, steps, rows);
    codes(steps, rows);
  }
  static L::Ints load(const void* numbers, int i) {
    return L::load(static_cast<const int32_t*>(numbers) + 8 * i);
  }

  // Whole numbers with their zero point.
  template <class Steps>
  void codes(const Steps& steps, const Rows& rows) const {
    const auto shift = static_cast<int32_t>(rule_.zero_point);
    const L::Ints zero = L::set16(Steps::kTwice ? 2 * shift + 1 : shift);
    const auto moved = [&](L::Ints words) __attribute__((always_inline)) {
      const L::Ints sum = L::add16(words, zero);
      return Steps::kTwice ? L::right16<1>(sum) : sum;
    };
    each_two(steps, rows, [&](L::Ints& first, L::Ints& second) __attribute__((always_inline)) {
      first = moved(first), second = moved(second);
    });
  }
  template <class Steps>
  void through(const CurveTable& table, const Steps& steps, const Rows& rows) const {
    const auto run = [&](const auto& curve) {
      each_two(steps, rows, [&](L::Ints& first, L::Ints& second) __attribute__((always_inline)) {
        curve.both(first, second);
      });
    };
    if (table.whole) return run(CurveWords<L, true>(table));
    run(CurveWords<L, false>(table));
  }

  // Words of two pixels through `words`, then as bytes.
  template <class Steps, class Words>
  [[gnu::always_inline]] void each_two(const Steps& steps, const Rows& rows, const Words& words) const {
    const L::Ints low = L::set8(static_cast<int32_t>(rule_.low)),
                  high = L::set8(static_cast<int32_t>(rule_.high));
    const auto packed = [&](const int32_t* acc) __attribute__((always_inline)) {
      return L::pack32(steps(L::load(acc), 0), steps(L::load(acc + 8), 1));
    };
    const int32_t* acc = rows.acc;
    for (int64_t pixel = 0; pixel < rows.pixels; pixel += 2, acc += 2 * rows.stride) {
      const bool two = pixel + 1 < rows.pixels;
      L::Ints first = packed(acc), second = packed(two ? acc + rows.stride : acc);
      words(first, second);
      const L::Ints bytes = L::clamp8(L::in_order(L::pack16(first, second)), low, high);
      put(rows.target, pixel, L::lane(bytes, 0));
      if (two) put(rows.target, pixel + 1, L::lane(bytes, 1));
    }
  }
  [[gnu::always_inline]] static void put(const StripTarget& target, int64_t pixel, __m128i codes) {
    uint8_t* to = target.first + (target.offsets == nullptr ? pixel * kStrip : target.offsets[pixel]);
    if (__builtin_expect(target.channels == kStrip, 1)) return Lanes<16>::store(to, codes);
    Lanes<16>::store_some(to, codes, target.channels);
  }

  const Rescale& rule_;
  int64_t function_;
  Form form_;
  SplitLayer split_;
  FixedLayer fixed_;
};

}  // namespace
}  // namespace calib8::engine
