// Walks over the elements of elementwise steps in runs that are dense in all tensors.
//
// What is not dense is copied into a buffer first: an operand that repeats, that has gaps, several rows too
// short for a loop of their own, and the last elements of a run that do not fill a block. So kernels know one
// case only:
//
//   run(a, b, y, count, place)     y[i] = f(a[i], b[i]), i < count
//
// count is a multiple of 64; place is that of the first element along the last axis, counting on where
// several rows are taken at once.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstring>
#include <utility>

#include "lanes.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kRun = 2048;         // elements of a run at most
constexpr int64_t kUnit = 64;          // runs are multiples of it
constexpr int64_t kShortRow = 64;      // rows below are taken several at once in any case,
constexpr int64_t kTogether = 512;     // rows below are where the output has no gaps
constexpr int64_t kAloneBelow = 4096;  // elements that one thread handles faster than two
static_assert(2 * kTogether <= kRepeated);

// Writes beyond the end, up to a whole word.
inline void fill(uint8_t* to, uint8_t code, int64_t count) {
  const uint64_t word = code * uint64_t{0x0101010101010101};
  for (int64_t i = 0; i < count; i += 8) std::memcpy(to + i, &word, 8);
}
template <class T>
void fill(T* to, T number, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = number;
}

// An operand: where it is read, and a buffer for what does not lie there as a run.
template <class T>
struct Source {
  using Value = T;
  const T* data;
  int64_t row_stride, stride;  // of axes 4 and 5
  int64_t row_size;            // elements of axis 5
  const T* filled_from = nullptr;
  alignas(64) T buffer[kRun + kUnit];  // left as it is until it is needed

  Source(const T* first, const Axes& strides, int64_t size)
      : data(first), row_stride(strides[4]), stride(strides[5]), row_size(size) {}

  void copy_row(T* to, const T* from, int64_t count) {
    if (stride == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else if (stride == 0) {
      fill(to, *from, count);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
    }
  }
  // `count` elements of one row from `offset` on.
  const T* part_of_row(int64_t offset, int64_t count) {
    const T* from = data + offset;
    if (stride == 1) return from;
    if (stride == 0 && filled_from == from) return buffer;
    filled_from = stride == 0 ? from : nullptr;
    const int64_t most = row_size < kRun ? row_size : kRun;
    copy_row(buffer, from, stride == 0 ? most : count);
    return buffer;
  }
  // `count` whole rows from `offset` on, of which at most `most` are ever wanted.
  const T* rows(int64_t offset, int64_t count, int64_t most) {
    const T* from = data + offset;
    if (stride == 1 && row_stride == row_size) return from;
    if (row_stride == 0 && filled_from == from) return buffer;
    filled_from = row_stride == 0 ? from : nullptr;
    const int64_t copied = row_stride == 0 ? most : count;
    for (int64_t row = 0; row < copied; ++row)
      copy_row(buffer + row * row_size, from + row * row_stride, row_size);
    return buffer;
  }
};

// An operand that is the same for all rows, as float32 code − zero point: what one row takes serves the next.
struct RowFloats {
  using Value = float;
  const uint8_t* data;
  int64_t row_size;
  int32_t zero;
  const uint8_t* filled_from = nullptr;
  int64_t filled = 0;
  alignas(64) float buffer[kRun + kUnit];

  RowFloats(const uint8_t* first, int64_t size, int64_t zero_point)
      : data(first), row_size(size), zero(static_cast<int32_t>(zero_point)) {}

  // `count` numbers from `offset` on; `rows` of them follow each other.
  const float* numbers(int64_t offset, int64_t count, int64_t rows) {
    if (filled_from == data + offset && filled >= rows * count) return buffer;
    filled_from = data + offset;
    filled = rows * count;
    for (int64_t row = 0; row < rows; ++row) {
      float* to = buffer + row * count;
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(int64_t{filled_from[i]} - zero);
    }
    return buffer;
  }
  const float* part_of_row(int64_t offset, int64_t count) { return numbers(offset, count, 1); }
  const float* rows(int64_t offset, int64_t, int64_t most) { return numbers(offset, row_size, most); }
};

// Where the output goes: in place, or through a buffer.
template <class Y>
struct Target {
  Y* data;
  int64_t row_stride, stride, row_size;
  alignas(64) Y buffer[kRun];

  Target(Y* first, const Axes& strides, int64_t size)
      : data(first), row_stride(strides[4]), stride(strides[5]), row_size(size) {}

  bool direct(bool several_rows) const { return stride == 1 && (!several_rows || row_stride == row_size); }
  // Rows of the buffer to where they belong.
  void store(Y* to, int64_t rows, int64_t count) const {
    const Y* from = buffer;
    for (int64_t row = 0; row < rows; ++row, to += row_stride, from += count) {
      if (stride == 1) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Y));
      } else {
        for (int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
      }
    }
  }
};

// Indices over axes 0 … 4 with the places that belong to them, counted up one by one.
struct Odometer {
  const Pair& pair;
  int axes;  // that are counted: 4 or 5
  int64_t index[5] = {}, lhs = 0, rhs = 0, output = 0;

  Odometer(const Pair& tensors, int counted, int64_t start) : pair(tensors), axes(counted) {
    for (int axis = axes - 1; axis >= 0; --axis) {
      const auto i = static_cast<size_t>(axis);
      index[i] = start % pair.sizes[i];
      start /= pair.sizes[i];
      move(i, index[i]);
    }
  }
  void move(size_t axis, int64_t by) {
    lhs += by * pair.lhs_strides[axis];
    rhs += by * pair.rhs_strides[axis];
    output += by * pair.output_strides[axis];
  }
  void next() {
    for (int axis = axes - 1; axis >= 0; --axis) {
      const auto i = static_cast<size_t>(axis);
      move(i, 1);
      if (++index[i] < pair.sizes[i]) return;
      index[i] = 0;
      move(i, -pair.sizes[i]);
    }
  }
};

// How a step is cut: `lines` stretches of `length` elements (of axis 5) or rows (of axis 4), in pieces.
struct Cut {
  bool several_rows;
  int64_t elements, lines, length, piece, pieces;

  explicit Cut(const Pair& pair) {
    const int64_t rows = pair.sizes[4], size = pair.sizes[5];
    const bool gapless = pair.output_strides[4] == size && pair.output_strides[5] == 1;
    several_rows = rows > 1 && (size < kShortRow || (size < kTogether && gapless));
    lines = several_rows ? 1 : rows;
    for (size_t axis = 0; axis < 4; ++axis) lines *= pair.sizes[axis];
    length = several_rows ? rows : size;
    piece = several_rows ? 2 * kTogether / size : kRun;
    pieces = (length + piece - 1) / piece;
    elements = lines * length * (several_rows ? size : 1);
  }
  // The pieces of a part; few elements are left to one of them.
  Range range(Part part) const {
    if (elements < kAloneBelow) return {0, part.index == 0 ? lines * pieces : 0};
    return share(part, lines * pieces);
  }
};

template <class A, class B, class Y>
using Run = void (*)(const void* context, const A* a, const B* b, Y* y, int64_t count, int64_t place);

// A run of any length: whole units in place, the rest through buffers.
template <class A, class B, class Y>
void run_units(Run<A, B, Y> run, const void* context, const A* a, const B* b, Y* y, int64_t count,
               int64_t place) {
  const int64_t whole = count / kUnit * kUnit, rest = count - whole;
  if (whole != 0) run(context, a, b, y, whole, place);
  if (rest == 0) return;
  alignas(64) A last_a[kUnit] = {};
  alignas(64) B last_b[kUnit] = {};
  alignas(64) Y last_y[kUnit];
  V::copy_some(last_a, a + whole, rest);
  V::copy_some(last_b, b + whole, rest);
  run(context, last_a, last_b, last_y, kUnit, place + whole);
  V::copy_some(y + whole, last_y, rest);
}

// Calls run(context, a, b, y, count, place) for a share of the elements.
template <class A, class Y, class Rhs, class B = typename Rhs::Value>
[[gnu::noinline]] void walk_runs(const Pair& pair, const Memory& memory, Part part, Rhs& rhs,
                                 Run<A, B, Y> run, const void* context) {
  const Cut cut(pair);
  const Range range = cut.range(part);
  if (range.begin >= range.end) return;
  const int64_t size = pair.sizes[5];
  Source<A> lhs(memory.data<A>(pair.lhs_buffer, pair.lhs_offset), pair.lhs_strides, size);
  Target<Y> target(memory.data<Y>(pair.output_buffer, pair.output_offset), pair.output_strides, size);
  const bool direct = target.direct(cut.several_rows);
  const size_t axis = cut.several_rows ? 4 : 5;
  Odometer line(pair, static_cast<int>(axis), range.begin / cut.pieces);
  int64_t first = range.begin % cut.pieces * cut.piece;
  for (int64_t i = range.begin; i < range.end; ++i) {
    const int64_t left = cut.length - first, length = left < cut.piece ? left : cut.piece;
    const int64_t from_lhs = line.lhs + first * pair.lhs_strides[axis];
    const int64_t from_rhs = line.rhs + first * pair.rhs_strides[axis];
    Y* to = target.data + line.output + first * pair.output_strides[axis];
    Y* y = direct ? to : target.buffer;
    if (cut.several_rows) {
      const A* a = lhs.rows(from_lhs, length, cut.piece);
      const B* b = rhs.rows(from_rhs, length, cut.piece);
      run_units(run, context, a, b, y, length * size, 0);
    } else {
      const A* a = lhs.part_of_row(from_lhs, length);
      const B* b = rhs.part_of_row(from_rhs, length);
      run_units(run, context, a, b, y, length, first);
    }
    if (!direct) target.store(to, cut.several_rows ? length : 1, cut.several_rows ? size : length);
    first += cut.piece;
    if (first >= cut.length) {
      first = 0;
      line.next();
    }
  }
}

// The same for run(a, b, y, count, place).
template <class A, class B, class Y = uint8_t, class F>
void walk(const Pair& pair, const Memory& memory, Part part, const F& run) {
  const Run<A, B, Y> call = [](const void* context, const A* a, const B* b, Y* y, int64_t count,
                               int64_t place) { (*static_cast<const F*>(context))(a, b, y, count, place); };
  Source<B> rhs(memory.data<B>(pair.rhs_buffer, pair.rhs_offset), pair.rhs_strides, pair.sizes[5]);
  walk_runs<A, Y>(pair, memory, part, rhs, call, &run);
}

// … where the right side is the same for all rows, with zero point `zero`: b are float32.
template <class A, class F>
void walk_rows(const Pair& pair, int64_t zero, const Memory& memory, Part part, const F& run) {
  const Run<A, float, uint8_t> call = [](const void* context, const A* a, const float* b, uint8_t* y,
                                         int64_t count, int64_t place) {
    (*static_cast<const F*>(context))(a, b, y, count, place);
  };
  RowFloats rhs(memory.data<uint8_t>(pair.rhs_buffer, pair.rhs_offset), pair.sizes[5], zero);
  walk_runs<A, uint8_t>(pair, memory, part, rhs, call, &run);
}

inline bool same_for_all_rows(const Axes& strides) { return strides[4] == 0 && strides[5] == 1; }

// The same pair with its sides exchanged.
inline Pair exchanged(Pair pair) {
  std::swap(pair.lhs_strides, pair.rhs_strides);
  std::swap(pair.lhs_buffer, pair.rhs_buffer);
  std::swap(pair.lhs_offset, pair.rhs_offset);
  return pair;
}

// A tensor alone: run gets it as `a` and as `b`.
inline Pair alone(const Single& tensors) {
  Pair pair{};
  pair.sizes = tensors.sizes;
  pair.lhs_strides = pair.rhs_strides = tensors.input_strides;
  pair.output_strides = tensors.output_strides;
  pair.lhs_buffer = pair.rhs_buffer = tensors.input_buffer;
  pair.lhs_offset = pair.rhs_offset = tensors.input_offset;
  pair.output_buffer = tensors.output_buffer;
  pair.output_offset = tensors.output_offset;
  return pair;
}

}  // namespace
}  // namespace calib8::engine
