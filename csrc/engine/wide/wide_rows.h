// WideLength and WideLayerNorm: rows of codes of which some have 16 bits (docs/numerics.md).
//
//   lengths    64 neighbours along the last axis that stays at a time: sums of squares, then codes
//   norms      both sums of a row, then its codes
//
// Sums have 64 bits: S < 2^61, n·Σq² < 2^63. Everything here has internal linkage: each instruction set
// compiles its own.
#pragma once

#include <algorithm>

#include "../pools/lengths.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int kLastAxis = kAxes - 1;

// Calls visit(first, other) for every index of all axes but the last one, in row-major order, with the places
// that it has by both strides; from index `begin` on, up to `end`.
template <class Visit>
void each_line(const Axes& sizes, const Axes& strides, const Axes& others, Range lines, const Visit& visit) {
  Axes at{};
  int64_t first = 0, other = 0, rest = lines.begin;
  for (int axis = kLastAxis - 1; axis >= 0; --axis) {
    at[axis] = rest % sizes[axis], rest /= sizes[axis];
    first += at[axis] * strides[axis], other += at[axis] * others[axis];
  }
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    visit(first, other);
    for (int axis = kLastAxis - 1; axis >= 0; --axis) {
      first += strides[axis], other += others[axis];
      if (++at[axis] < sizes[axis]) break;
      first -= sizes[axis] * strides[axis], other -= sizes[axis] * others[axis];
      at[axis] = 0;
    }
  }
}

inline int64_t line_count(const Axes& sizes) {
  int64_t count = 1;
  for (int axis = 0; axis < kLastAxis; ++axis) count *= sizes[axis];
  return count;
}

constexpr int64_t kLengthsAtOnce = 64;

// Σ(q − z)² of `count` vectors whose first codes lie `stride` apart.
template <class In>
void sum_squares(const Reduce& of, const In* first, int64_t stride, int64_t count, int64_t* squares) {
  const int64_t inner = of.inner_sizes[kLastAxis], step = of.inner_strides[kLastAxis];
  const auto zero = static_cast<int32_t>(of.zero_point);
  std::fill(squares, squares + count, 0);
  each_line(of.inner_sizes, of.inner_strides, of.inner_strides, {0, line_count(of.inner_sizes)},
            [&](int64_t line, int64_t) {
              for (int64_t j = 0; j < inner; ++j) {
                const In* codes = first + line + j * step;
                for (int64_t i = 0; i < count; ++i) {
                  const int64_t centred = codes[i * stride] - zero;
                  squares[i] += centred * centred;
                }
              }
            });
}

template <class In, class Out>
void write_lengths(const WideLength& step, const Memory& memory, Part part) {
  const Reduce& of = step.reduction;
  const In* source = memory.data<In>(of.source_buffer, of.source_offset);
  Out* target = memory.data<Out>(of.target_buffer, of.target_offset);
  const int64_t last = of.outer_sizes[kLastAxis];
  const int64_t stride = of.outer_strides[kLastAxis], to = of.target_strides[kLastAxis];
  const Range lines = share(part, line_count(of.outer_sizes));
  each_line(of.outer_sizes, of.outer_strides, of.target_strides, lines, [&](int64_t from, int64_t at) {
    for (int64_t first = 0; first < last; first += kLengthsAtOnce) {
      const int64_t count = std::min(kLengthsAtOnce, last - first);
      int64_t squares[kLengthsAtOnce];
      sum_squares(of, source + from + first * stride, stride, count, squares);
      for (int64_t i = 0; i < count; ++i) {
        target[at + (first + i) * to] = static_cast<Out>(length_steps(of.rescale, memory, squares[i]));
      }
    }
  });
}

// A row of codes; t and V of the formulas.
template <class In, class Out>
void write_norm(const WideLayerNorm& step, const Memory& memory, const In* codes, Out* target) {
  const LayerNorm& norm = step.norm;
  const int64_t n = norm.input.channels;
  const int64_t centre = step.centred != 0 ? 0 : norm.centre;
  int64_t sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t code = codes[i] - centre;
    sum += code, squares += code * code;
  }
  if (step.centred == 0) sum = 0;
  const int64_t spread = n * squares - sum * sum;
  const double root = std::sqrt(static_cast<double>(spread) + norm.epsilon);
  const float inverse = spread == 0 ? 0.0F : static_cast<float>(1.0 / root);
  const auto* factor = memory.constant<float>(norm.factor);
  const auto* offset = memory.constant<float>(norm.offset);
  for (int64_t i = 0; i < n; ++i) {
    const float value = static_cast<float>(n * (codes[i] - centre) - sum) * inverse;
    const float scaled = value * factor[i];
    target[i] = static_cast<Out>(rounded_code(scaled + offset[i], norm.zero_point, norm.low, norm.high));
  }
}

template <class In, class Out>
void write_norms(const WideLayerNorm& step, const Memory& memory, Part part) {
  const View &in = step.norm.input, &out = step.norm.output;
  const In* input = memory.data<In>(in);
  Out* output = memory.data<Out>(out);
  const Range pixels = share(part, in.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t line = pixel / in.columns, column = pixel % in.columns;
    const int64_t image = line / in.rows, row = line % in.rows;
    write_norm(step, memory, input + in.at(image, row, column), output + out.at(image, row, column));
  }
}

[[maybe_unused]] void wide_length(const WideLength& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return write_lengths<uint8_t, int16_t>(step, memory, part);
  if (step.output_size == 1) return write_lengths<int16_t, uint8_t>(step, memory, part);
  write_lengths<int16_t, int16_t>(step, memory, part);
}

[[maybe_unused]] void wide_layer_norm(const WideLayerNorm& step, const Memory& memory, Part part) {
  if (step.input_size == 1) return write_norms<uint8_t, int16_t>(step, memory, part);
  if (step.output_size == 1) return write_norms<int16_t, uint8_t>(step, memory, part);
  write_norms<int16_t, int16_t>(step, memory, part);
}

}  // namespace
}  // namespace calib8::engine
