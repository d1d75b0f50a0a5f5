// Depthwise convolution on x86: blocks of 64, 32 or 16 channels, and which form takes them.
//
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include "depthwise_blocks.h"
#include "depthwise_five.h"
#include "depthwise_one.h"
#include "depthwise_three.h"
#include "depthwise_windows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Blocks as wide as vectors go, or with several strips of a row in a vector.
template <class L, Rounding kind>
void one_filter(const Task& task) {
  const Depthwise& step = task.step;
  const bool unit = step.row_step == 1 && step.column_step == 1;
  const bool plain = step.layers == 1 && step.row_dilation == 1 && step.column_dilation == 1;
  if (plain && step.kernel_rows == 3 && step.kernel_columns == 3) {
    if (unit) return ThreeByThree<L, kind, 1>(task).run();
    if (step.column_step == 2) return ThreeByThree<L, kind, 2>(task).run();
  }
  if (plain && unit && step.kernel_rows == 5 && step.kernel_columns == 5) {
    return FiveByFive<L, kind, 1>(task).run();
  }
  if (step.layers == 1 && step.kernel_rows == 1 && step.kernel_columns == 1) return one_by_one<L, kind>(task);
  any_window<L, Direct<L>, kind>(task);
}

template <int widest, int width, Rounding kind>
void narrow_rule(Task task) {
  using Plain = Block<width, width>;
  using Strips = Block<widest, width>;
  if (task.step.multiplier != 1) return any_window<Plain, Repeated<Plain>, kind>(task);
  if (task.step.output.columns < Strips::kStrips) return any_window<Plain, Direct<Plain>, kind>(task);
  task.strips = Strips::kStrips;
  one_filter<Strips, kind>(task);
}

template <int widest, int width, Rounding kind>
[[gnu::noinline]] void split_rule(const Task& task) {
  narrow_rule<widest, width, kind>(task);
}

// Whether the curve of a layer is all that its codes depend on.
bool is_whole(const Task& task) {
  return task.step.rescale.low == 0 && task.step.rescale.high == 255 &&
         CurveTable::is_whole(task.step.activation);
}

// Codes of a Relu, as most are.
bool is_from_zero(const Rescale& rule) { return rule.zero_point == 0 && rule.low == 0 && rule.high == 255; }

template <int widest, int width>
void run_float(const Task& task) {
  switch (task.step.activation.kind) {
    case Activation::kTwoSided:
      return narrow_rule<widest, width, Rounding::kTwoSided>(task);
    case Activation::kCurve:
      return is_whole(task) ? narrow_rule<widest, width, Rounding::kWholeCurve>(task)
                            : narrow_rule<widest, width, Rounding::kCurve>(task);
    default:
      return is_from_zero(task.step.rescale) ? narrow_rule<widest, width, Rounding::kFromZero>(task)
                                             : narrow_rule<widest, width, Rounding::kFloat>(task);
  }
}

template <int widest, int width>
void run_split(const Task& task) {
  switch (task.step.activation.kind) {
    case Activation::kTwoSided:
      return split_rule<widest, width, Rounding::kSplitSides>(task);
    case Activation::kCurve:
      return is_whole(task) ? split_rule<widest, width, Rounding::kSplitWholeCurve>(task)
                            : split_rule<widest, width, Rounding::kSplitCurve>(task);
    default:
      return nudge_has_sign(task.step.rescale) ? split_rule<widest, width, Rounding::kSplitSigned>(task)
                                               : split_rule<widest, width, Rounding::kSplit>(task);
  }
}

// Sums that no form in registers takes; a table that the tiles would apply is applied behind them.
template <int width>
void run_any_rule(const Task& task) {
  using Plain = Block<width, width>;
  if (task.step.multiplier == 1) {
    any_rule<Plain, Direct<Plain>>(task);
  } else {
    any_rule<Plain, Repeated<Plain>>(task);
  }
  if (task.table != nullptr) apply_table(task);
}

template <int widest, int width>
void run_block(const Task& task) {
  const Rescale& rule = task.step.rescale;
  const bool narrow = task.step.narrow != 0, curve = task.step.activation.kind == Activation::kCurve;
  if (narrow && rule.kind == Rescale::kFloat) return run_float<widest, width>(task);
  if (narrow && rule.kind != Rescale::kAway) {
    const SplitLayer split({rule, task.step.activation, task.memory, task.channel}, width,
                           curve ? SplitUse::kSteps : SplitUse::kCodes);
    if (split.fits) return rounded_down([&] { run_split<widest, width>(task); });
  }
  run_any_rule<width>(task);
}

template <int widest, int width>
void run_width_from(const Task& task, int64_t wanted) {
  if constexpr (width > 16) {
    if (wanted < width) return run_width_from<widest, width / 2>(task, wanted);
  }
  run_block<widest, width>(task);
}
template <int widest>
void run_width(const Task& task, int64_t width) {
  run_width_from<widest, widest>(task, width);
}

}  // namespace
}  // namespace calib8::engine
