// Depthwise convolution on Arm: blocks of 16 channels, and which form takes them.
//
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include "depthwise_blocks.h"
#if defined(__ARM_FEATURE_DOTPROD)
#include "depthwise_five.h"
#include "depthwise_three.h"
#include "depthwise_windows.h"
#else
#include "depthwise_words_neon.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

#if defined(__ARM_FEATURE_DOTPROD)
using Sixteen = Block<16, 16>;

template <Rounding kind>
[[gnu::noinline]] void one_filter(const Task& task) {
  using L = Sixteen;
  const Depthwise& step = task.step;
  if (step.multiplier != 1) return any_window<L, Repeated<L>, kind>(task);
  const bool one = step.row_step == 1 && step.column_step == 1;
  const bool plain = step.layers == 1 && step.row_dilation == 1 && step.column_dilation == 1;
  if (plain && step.kernel_rows == 3 && step.kernel_columns == 3) {
    if (one) return ThreeByThree<L, kind, 1>(task).run();
    if (step.column_step == 2) return ThreeByThree<L, kind, 2>(task).run();
  }
  if (plain && step.kernel_rows == 5 && step.kernel_columns == 5) {
    if (one) return FiveByFive<L, kind, 1>(task).run();
    if (step.column_step == 2) return FiveByFive<L, kind, 2>(task).run();
  }
  any_window<L, Direct<L>, kind>(task);
}

void run_any_rule(const Task& task) {
  if (task.step.multiplier == 1) return any_rule<Sixteen, Direct<Sixteen>>(task);
  any_rule<Sixteen, Repeated<Sixteen>>(task);
}
#endif

template <int>
void run_width(const Task& task, int64_t) {
  const int64_t function = task.step.activation.kind;
  if (function == Activation::kTwoSided) return run_any_rule(task);
  const bool curve = function == Activation::kCurve;
  switch (task.step.rescale.kind) {
    case Rescale::kFloat:
      return curve ? one_filter<Rounding::kFloatCurve>(task) : one_filter<Rounding::kFloat>(task);
    case Rescale::kDouble:
      return curve ? one_filter<Rounding::kDoubleCurve>(task) : one_filter<Rounding::kDouble>(task);
    case Rescale::kSingle:
      return curve ? one_filter<Rounding::kSingleCurve>(task) : one_filter<Rounding::kSingle>(task);
    default:
      return run_any_rule(task);
  }
}

}  // namespace
}  // namespace calib8::engine
