// MaxPool, a vector of channels of an output row at a time; codes of 8 or 16 bits. Offsets count bytes.
//
// The largest code of each input column over the rows of the window comes first; a window is then the largest
// of its columns. Kernels of three columns keep the columns that the next window shares in registers, wider
// ones keep all columns of the row in scratch memory.
#pragma once

#include "lanes.h"
#include "windows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Codes of a width: the larger ones of two vectors, and the smallest there is.
struct ByteCodes {
  using Code = uint8_t;
  static Bytes larger(Bytes a, Bytes b) { return V::max8(a, b); }
  static Bytes least() { return V::set8(0); }
};
struct WordCodes {
  using Code = int16_t;
  static Words larger(Words a, Words b) { return V::larger16(a, b); }
  static Words least() { return V::set16(INT16_MIN); }
};

// The rows under one row of windows, from one group of channels on.
template <class Codes>
struct PoolRows {
  const uint8_t* first;  // column 0 of the first row inside the image
  int64_t count, row_stride, column_stride;

  template <int rows>
  Bytes largest(int64_t column, int64_t group = 0) const {
    const uint8_t* codes = first + column * column_stride + group * kWidth;
    Bytes result = V::load(codes);
    const int64_t end = rows > 0 ? rows : count;
    for (int64_t row = 1; row < end; ++row) result = Codes::larger(result, V::load(codes + row * row_stride));
    return result;
  }
};

// One row of outputs from one group of channels on.
struct PoolTarget {
  uint8_t* first;
  int64_t columns, column_stride, bytes;

  void store(int64_t column, Bytes codes, int64_t group = 0) const {
    store_codes(first + column * column_stride + group * kWidth, codes, bytes - group * kWidth);
  }
};

template <int rows, class Codes>
void max_pool_direct(const PoolRows<Codes>& input, const WindowAxis& axis, const PoolTarget& target) {
  for (int64_t column = 0; column < target.columns; ++column) {
    const Range taps = axis.inside(column);
    const int64_t start = axis.start(column);
    Bytes result = Codes::least();
    for (int64_t tap = taps.begin; tap < taps.end; ++tap) {
      result = Codes::larger(result, input.template largest<rows>(start + tap * axis.dilation));
    }
    target.store(column, result);
  }
}

// Three columns side by side, one or two columns from window to window; two groups of channels together where
// there are as many, so that what is read follows itself in memory.
template <int rows, int step, int groups, class Codes>
void max_pool_sliding(const PoolRows<Codes>& input, const WindowAxis& axis, const PoolTarget& target) {
  struct Column {
    Bytes of[groups];
  };
  const auto column_or_none = [&](int64_t column) __attribute__((always_inline)) {
    Column found;
    const bool inside = column >= 0 && column < axis.size;
    for (int g = 0; g < groups; ++g) {
      found.of[g] = inside ? input.template largest<rows>(column, g) : Codes::least();
    }
    return found;
  };
  int64_t place = -axis.before;
  Column first = column_or_none(place), second = column_or_none(place + 1);
  for (int64_t column = 0; column < target.columns; ++column, place += step) {
    const Column third = column_or_none(place + 2);
    for (int g = 0; g < groups; ++g) {
      target.store(column, Codes::larger(Codes::larger(first.of[g], second.of[g]), third.of[g]), g);
    }
    first = step == 1 ? second : third;
    second = step == 1 ? third : column_or_none(place + 3);
  }
}

template <int rows, class Codes>
void max_pool_wide(const PoolRows<Codes>& input, const WindowAxis& axis, const PoolTarget& target,
                   uint8_t* scratch) {
  for (int64_t column = 0; column < axis.size; ++column) {
    store_codes(scratch + column * kWidth, input.template largest<rows>(column), kWidth);
  }
  max_pool_direct<1>(PoolRows<Codes>{scratch, 1, 0, kWidth}, axis, target);
}

bool slides(const WindowAxis& axis) { return axis.kernel == 3 && axis.dilation == 1 && axis.step <= 2; }

template <int rows, class Codes>
void max_pool_line(const PoolRows<Codes>& input, const WindowAxis& axis, const PoolTarget& target,
                   uint8_t* scratch) {
  if (slides(axis)) {
    const bool two = target.bytes > kWidth;
    if (axis.step == 1) {
      two ? max_pool_sliding<rows, 1, 2>(input, axis, target)
          : max_pool_sliding<rows, 1, 1>(input, axis, target);
    } else {
      two ? max_pool_sliding<rows, 2, 2>(input, axis, target)
          : max_pool_sliding<rows, 2, 1>(input, axis, target);
    }
  } else if (axis.kernel > axis.step) {
    max_pool_wide<rows>(input, axis, target, scratch);
  } else {
    max_pool_direct<rows>(input, axis, target);
  }
}

template <class Codes, class Step>
void max_pool_of(const Step& step, const Memory& memory, Part part) {
  constexpr int64_t kSize = sizeof(typename Codes::Code);
  const View &in = step.input, &out = step.output;
  const WindowAxis rows = row_axis(step.window, in), columns = column_axis(step.window, in);
  const int64_t group = (slides(columns) ? 2 : 1) * kWidth / kSize;  // channels
  const int64_t groups = (out.channels + group - 1) / group;
  const Range items = share(part, out.images * out.rows * groups);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t channel = item % groups * group, row = item / groups % out.rows;
    const int64_t image = item / groups / out.rows;
    const Range taps = rows.inside(row);
    const int64_t first_row = rows.start(row) + taps.begin * rows.dilation;
    const PoolRows<Codes> input{memory.data<uint8_t>(in) + (in.at(image, first_row, 0) + channel) * kSize,
                                taps.end - taps.begin, in.row_stride * rows.dilation * kSize,
                                in.column_stride * kSize};
    const PoolTarget target{memory.data<uint8_t>(out) + (out.at(image, row, 0) + channel) * kSize,
                            out.columns, out.column_stride * kSize, (out.channels - channel) * kSize};
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

void max_pool(const MaxPool& step, const Memory& memory, Part part) {
  max_pool_of<ByteCodes>(step, memory, part);
}
void wide_max_pool(const WideMaxPool& step, const Memory& memory, Part part) {
  max_pool_of<WordCodes>(step, memory, part);
}

}  // namespace
}  // namespace calib8::engine
