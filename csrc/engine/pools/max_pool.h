// MaxPool, kWidth channels of an output row at a time.
//
// The largest code of each input column over the rows of the window comes first; a window is then the largest
// of its columns. Kernels of three columns keep the columns that the next window shares in registers, wider
// ones keep all columns of the row in scratch memory.
#pragma once

#include "lanes.h"
#include "windows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The rows under one row of windows, at one group of channels.
struct PoolRows {
  const uint8_t* first;  // column 0 of the first row inside the image
  int64_t count, row_stride, column_stride;

  template <int rows>
  Bytes largest(int64_t column) const {
    const uint8_t* codes = first + column * column_stride;
    Bytes result = V::load(codes);
    const int64_t end = rows > 0 ? rows : count;
    for (int64_t row = 1; row < end; ++row) result = V::max8(result, V::load(codes + row * row_stride));
    return result;
  }
};

// One row of outputs at one group of channels.
struct PoolTarget {
  uint8_t* first;
  int64_t columns, column_stride, channels;

  void store(int64_t column, Bytes codes) const {
    store_codes(first + column * column_stride, codes, channels);
  }
};

template <int rows>
void max_pool_direct(const PoolRows& input, const WindowAxis& axis, const PoolTarget& target) {
  for (int64_t column = 0; column < target.columns; ++column) {
    const Range taps = axis.inside(column);
    const int64_t start = axis.start(column);
    Bytes result = V::set8(0);
    for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
      result = V::max8(result, input.largest<rows>(start + tap * axis.dilation));
    }
    target.store(column, result);
  }
}

// Three columns side by side, one or two columns from window to window.
template <int rows, int step>
void max_pool_sliding(const PoolRows& input, const WindowAxis& axis, const PoolTarget& target) {
  const auto column_or_none = [&](int64_t column) {
    return column >= 0 && column < axis.size ? input.largest<rows>(column) : V::set8(0);
  };
  int64_t place = -axis.before;
  Bytes first = column_or_none(place), second = column_or_none(place + 1);
  for (int64_t column = 0; column < target.columns; ++column, place += step) {
    const Bytes third = column_or_none(place + 2);
    target.store(column, V::max8(V::max8(first, second), third));
    first = step == 1 ? second : third;
    second = step == 1 ? third : column_or_none(place + 3);
  }
}

template <int rows>
void max_pool_wide(const PoolRows& input, const WindowAxis& axis, const PoolTarget& target,
                   uint8_t* scratch) {
  for (int64_t column = 0; column < axis.size; ++column) {
    store_codes(scratch + column * kWidth, input.largest<rows>(column), kWidth);
  }
  max_pool_direct<1>({scratch, 1, 0, kWidth}, axis, target);
}

template <int rows>
void max_pool_line(const PoolRows& input, const WindowAxis& axis, const PoolTarget& target,
                   uint8_t* scratch) {
  if (axis.kernel == 3 && axis.dilation == 1 && axis.step == 1) {
    max_pool_sliding<rows, 1>(input, axis, target);
  } else if (axis.kernel == 3 && axis.dilation == 1 && axis.step == 2) {
    max_pool_sliding<rows, 2>(input, axis, target);
  } else if (axis.kernel > axis.step) {
    max_pool_wide<rows>(input, axis, target, scratch);
  } else {
    max_pool_direct<rows>(input, axis, target);
  }
}

void max_pool(const MaxPool& step, const Memory& memory, Part part) {
  const View &in = step.input, &out = step.output;
  const WindowAxis rows = row_axis(step.window, in), columns = column_axis(step.window, in);
  const int64_t groups = (out.channels + kWidth - 1) / kWidth;
  const Range items = share(part, out.images * out.rows * groups);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t channel = item % groups * kWidth, row = item / groups % out.rows;
    const int64_t image = item / groups / out.rows;
    const Range taps = rows.inside(row);
    const int64_t first_row = rows.start(row) + taps.begin * rows.dilation;
    const PoolRows input{memory.data<uint8_t>(in) + in.at(image, first_row, 0) + channel,
                         taps.end - taps.begin, in.row_stride * rows.dilation, in.column_stride};
    const PoolTarget target{memory.data<uint8_t>(out) + out.at(image, row, 0) + channel, out.columns,
                            out.column_stride, out.channels - channel};
    switch (input.count) {
      case 1:
        max_pool_line<1>(input, columns, target, memory.scratch);
        break;
      case 2:
        max_pool_line<2>(input, columns, target, memory.scratch);
        break;
      case 3:
        max_pool_line<3>(input, columns, target, memory.scratch);
        break;
      default:
        max_pool_line<0>(input, columns, target, memory.scratch);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
