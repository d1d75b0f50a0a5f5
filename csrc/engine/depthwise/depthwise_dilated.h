// Depthwise layers with dilations as layers without.
//
// Everything here has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// With dilations a layer falls apart into layers without: the outputs of every n-th row and column read the
// inputs of every n-th row and column. Worth it where windows share columns that are interleaved once.
inline bool falls_apart(const Depthwise& step) {
  const bool shared = (step.kernel_rows == 3 && step.kernel_columns == 3) ||
                      (step.kernel_rows == 5 && step.kernel_columns == 5);
  const bool plain = step.layers == 1 && step.multiplier == 1 && step.row_step == 1 && step.column_step == 1;
  const bool dilated = step.row_dilation > 1 || step.column_dilation > 1;
  constexpr int64_t kLeastColumns = 4;
  return shared && plain && dilated && step.output.columns >= kLeastColumns * step.column_dilation;
}

// Strides of a single row or column may be anything, and are not used.
inline int64_t wrapped_product(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// Every n-th row and column of a view, from (row, column) on.
inline View thinned(View view, const Depthwise& step, int64_t row, int64_t column, int64_t item) {
  view.offset += view.at(0, row, column) * item;
  view.rows = (view.rows - row + step.row_dilation - 1) / step.row_dilation;
  view.columns = (view.columns - column + step.column_dilation - 1) / step.column_dilation;
  view.row_stride = wrapped_product(view.row_stride, step.row_dilation);
  view.column_stride = wrapped_product(view.column_stride, step.column_dilation);
  return view;
}

}  // namespace
}  // namespace calib8::engine
