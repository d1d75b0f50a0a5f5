// Shallow convolutions of few products, as tiles that take turns (conv_flow_avx512vnni.h): what counts and
// where bytes lie is known to the compiler, so that little but products and codes is left to do.
//
// Everything has internal linkage.
#pragma once

#include "conv_flow_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// `taps` rows of `side` quads that lie side by side. All places are copies: what a flow says might change
// with every byte that is stored, as far as compilers know, and they would read it again.
template <class Shape, class End, int taps, int side>
class FewTurns {
  static constexpr int kQuads = taps * side, kPixels = Shape::kPixels, kUnits = Shape::kUnits;

 public:
  __attribute__((noinline)) static void run(const Flow& flow) {
    const FewTurns turns(flow);
    take_turns<Shape, End>(flow.tile, flow.tiles,
                           [&](auto ended, int64_t first, Shape& sums, const Shape& done)
                               CALIB8_INLINE { turns.template take<ended != 0>(first, sums, done); });
  }

 private:
  explicit FewTurns(const Flow& flow)
      : tile_(flow.tile),
        target_(flow.tile),
        input_(flow.tile.input),
        weights_(flow.tile.weights),
        offsets_(flow.tile.input_offsets) {
    for (int t = 0; t < taps; ++t) rows_[t] = flow.indices[t * side];
  }

  template <bool ended>
  CALIB8_INLINE void take(int64_t first, Shape& sums, const Shape& done) const {
    const uint8_t* pixels[kPixels];
    repeat<kPixels>([&](auto i) CALIB8_INLINE { pixels[i] = input_ + offsets_[first + i]; });
    sums.start(hidden(tile_));
    repeat<kQuads>([&](auto q) CALIB8_INLINE {
      sums.template take<q, q % side * 4>(pixels, rows_[q / side], weights_);
      if constexpr (ended) {
        repeat<kUnits>([&](auto unit) CALIB8_INLINE {
          if constexpr (q == (unit + 1) * kQuads / (kUnits + 1)) {
            End::template store<unit>(tile_, target_, done, first - kPixels);
          }
        });
      }
    });
  }

  const Tile& tile_;
  Target target_;
  const uint8_t* input_;
  const int8_t* weights_;
  const int64_t* offsets_;
  int64_t rows_[taps];
};

// Whether sums, constants and what is read fit into the registers without a loop around them. Factors in two
// parts leave too few, but for a curve behind 16 channels.
template <class Shape, class Steps, class Last>
constexpr bool kFits = !Steps::kTwice && (!Steps::kSplit || Shape::kWidth == 1) &&
                       (Shape::kSpareVectors || Steps::kCurve || (Last::plain && !Last::looked_up));

// All tiles of a layer; without loops those of 16, 24, 32 or 40 channels and 3×3 kernels over three.
template <class Shape, template <int> class Steps, class Last>
inline void run_few(const Flow& flow) {
  using End = BytesEnd<Steps, Last>;
  if constexpr (kFits<Shape, Steps<Shape::kWidth>, Last>) {
    if (flow.taps == 1 && flow.quads == 4) return FewTurns<Shape, End, 1, 4>::run(flow);
    if (flow.taps == 1 && flow.quads == 6) return FewTurns<Shape, End, 1, 6>::run(flow);
    if (flow.taps == 1 && flow.quads == 8) return FewTurns<Shape, End, 1, 8>::run(flow);
    if (flow.taps == 1 && flow.quads == 10) return FewTurns<Shape, End, 1, 10>::run(flow);
    if constexpr (Shape::kSpareAddresses) {
      if (flow.taps == 3 && flow.quads == 9) return FewTurns<Shape, End, 3, 3>::run(flow);
    }
  }
  run_turns<Shape, End>(flow);
}

// … with a table or without.
template <class Shape, template <int> class Steps, bool plain>
inline void run_table_flow(const Flow& flow) {
  if (flow.tile.table == nullptr) return run_few<Shape, Steps, Last<plain, false>>(flow);
  run_few<Shape, Steps, Last<plain, true>>(flow);
}

template <class Shape, bool fixed>
inline void run_shape(Flow& flow, int64_t count) {
  set_turns<Shape>(flow, count);
  const Ending ending = flow.tile.ending;
  if constexpr (fixed) {
    if (ending == Ending::kSingle) return run_flow<Shape, SingleSteps, false>(flow);
    if (ending == Ending::kDouble) return run_flow<Shape, DoubleSteps, false>(flow);
  }
  if (ending == Ending::kSplit) {
    return flow.tile.plain ? run_table_flow<Shape, PlainSplitSteps, true>(flow)
                           : run_table_flow<Shape, PlainSplitSteps, false>(flow);
  }
  if (ending == Ending::kSplitSigned) return run_flow<Shape, SignedSplitSteps, false>(flow);
  if constexpr (Shape::kWidth == 1) {
    if (ending == Ending::kSplitSides) return run_flow<Shape, SidedSplitSteps, false>(flow);
  }
  if (ending == Ending::kSplitCurve) {
    return flow.tile.curve->whole ? run_few<Shape, WholeSplitCurveSteps, Last<false, false>>(flow)
                                  : run_flow<Shape, AnySplitCurveSteps, false>(flow);
  }
  if (ending == Ending::kSplitSumLeft) return run_flow<Shape, SplitLeftSumSteps, false>(flow);
  if (ending == Ending::kSplitSumRight) return run_flow<Shape, SplitRightSumSteps, false>(flow);
  if (ending == Ending::kTwoSided) return run_flow<Shape, TwoSidedSteps, false>(flow);
  if (ending == Ending::kCurve) return run_flow<Shape, AnyCurveSteps, false>(flow);
  if (ending == Ending::kWholeCurve) return run_few<Shape, WholeCurveSteps, Last<false, false>>(flow);
  if (ending == Ending::kPlain) return run_table_flow<Shape, FloatSteps, true>(flow);
  if (ending == Ending::kSumLeft) return run_flow<Shape, LeftSumSteps, false>(flow);
  if (ending == Ending::kSumRight) return run_flow<Shape, RightSumSteps, false>(flow);
  run_table_flow<Shape, FloatSteps, false>(flow);
}

}  // namespace
}  // namespace calib8::engine
