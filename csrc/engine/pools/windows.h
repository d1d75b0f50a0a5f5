// Windows of pools along one axis: which taps lie inside the image, and how many count.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// One axis of a window.
struct WindowAxis {
  int64_t size, kernel, step, dilation, before, after;

  // Input index of the first tap of an output; may lie outside.
  int64_t start(int64_t output) const { return output * step - before; }

  // The taps of an output that lie inside the image, first to end.
  Range inside(int64_t output) const {
    const int64_t from = start(output);
    const int64_t first = from < 0 ? (-from + dilation - 1) / dilation : 0;
    const int64_t end = from < size ? (size - from + dilation - 1) / dilation : 0;
    return {first < kernel ? first : kernel, end < kernel ? end : kernel};
  }

  // The taps of an undilated output that count: those in the image or, with pads, in the padded image.
  int64_t count(int64_t output, bool with_pads) const {
    const int64_t from = start(output);
    const int64_t low = with_pads ? -before : 0, high = with_pads ? size + after : size;
    const int64_t first = from < low ? low : from, end = from + kernel < high ? from + kernel : high;
    return first < end ? end - first : 0;
  }
};

[[maybe_unused]] inline WindowAxis row_axis(const Window& window, const View& input) {
  return {input.rows, window.kernel_rows, window.row_step, window.row_dilation, window.top, window.bottom};
}

[[maybe_unused]] inline WindowAxis column_axis(const Window& window, const View& input) {
  return {input.columns,          window.kernel_columns, window.column_step,
          window.column_dilation, window.left,           window.right};
}

}  // namespace
}  // namespace calib8::engine
