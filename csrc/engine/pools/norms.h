// LayerNorm: what a row's sums make of its codes (docs/numerics.md).
//
//   t = n·q − Σq,   V = n·Σq² − (Σq)²              of a row of n stored codes; zero points cancel
//   t = n·(q − c),   V = n·Σ(q − c)²               around a code c, the zero point, instead of the mean
//   kFloat   r = fl(1 / sqrt(V + ε)),  code = rint(fl(fl(fl(t·r)·factor) + offset)) + z_y
//   kFixed   2^22·t / sqrt(V + ε) by one root and one division in whole numbers, then
//            code = ((u·factor + offset·2^30 + 2^(h − 1)) >> h) + z_y
//
// n ≤ 2^16, around a code 2^15, so that |t| < 2^24 is a float32 number, Σq² < 2^32 and V < 2^46. V = 0 makes
// r and u 0.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What all codes of one row have in common.
struct RowNorm {
  int64_t count, sum;
  float inverse = 0;     // kFloat: r
  int64_t quotient = 0;  // kFixed: u = (t·quotient + 2^(shift − 1)) >> shift
  int64_t shift = 1;
};

// ⌊sqrt(x)⌋ of x < 2^62.
[[maybe_unused]] inline int64_t floor_of_root(int64_t x) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(x)));
  root -= root * root > x ? 1 : 0;
  return root + ((root + 1) * (root + 1) <= x ? 1 : 0);
}

// `sum` is Σq, `squares` Σq².
[[maybe_unused]] inline RowNorm row_norm(const LayerNorm& step, int64_t sum, int64_t squares) {
  const int64_t n = step.input.channels, c = step.centre;
  RowNorm row{n, c < 0 ? sum : n * c};
  const int64_t spread = n * squares - (c < 0 ? sum * sum : n * c * (2 * sum - n * c));
  if (spread == 0) return row;
  if (step.kind == LayerNorm::kFloat) {
    row.inverse = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spread) + step.epsilon));
    return row;
  }
  const int64_t wide = (spread << 16) + step.whole_epsilon;
  const int64_t k = (__builtin_clzll(static_cast<uint64_t>(wide)) - 2) >> 1;  // −1 … 22
  const int64_t root = floor_of_root(k < 0 ? wide >> 2 : wide << (2 * k));    // 2^30 … 2^31 − 1
  row.quotient = ((int64_t{1} << 61) - 1) / root;                             // 2^30 … 2^31 − 1
  row.shift = 31 - k;
  return row;
}

// The code of one channel, whose stored code is `code`.
[[maybe_unused]] inline uint8_t norm_code(const LayerNorm& step, const Memory& memory, const RowNorm& row,
                                          int64_t code, int64_t channel) {
  const int64_t centred = row.count * code - row.sum;
  if (step.kind == LayerNorm::kFloat) {
    const float value = static_cast<float>(centred) * row.inverse;
    const float scaled = value * memory.constant<float>(step.factor)[channel];
    const float moved = scaled + memory.constant<float>(step.offset)[channel];
    return static_cast<uint8_t>(rounded_code(moved, step.zero_point, step.low, step.high));
  }
  const int64_t half = int64_t{1} << (row.shift - 1);
  const int64_t value = (centred * row.quotient + half) >> row.shift;
  const int64_t shift = memory.constant<int32_t>(step.shift)[channel];
  const int64_t offset = memory.constant<int32_t>(step.offset)[channel] * (int64_t{1} << 30);
  const int64_t sum = value * memory.constant<int32_t>(step.factor)[channel] + offset;
  const int64_t steps = (sum + (int64_t{1} << (shift - 1))) >> shift;
  return static_cast<uint8_t>(clamped(steps + step.zero_point, step.low, step.high));
}

// Calls make(codes, target) for the rows of the share that falls to a part.
template <class Make>
void each_norm_row(const LayerNorm& step, const Memory& memory, Part part, Make make) {
  const View &in = step.input, &out = step.output;
  const uint8_t* input = memory.data<uint8_t>(in);
  uint8_t* output = memory.data<uint8_t>(out);
  const Range pixels = share(part, in.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end;) {
    const int64_t line = pixel / in.columns, image = line / in.rows, row = line % in.rows;
    const int64_t first = pixel - line * in.columns, left = pixels.end - pixel;
    const int64_t end = in.columns - first < left ? in.columns : first + left;
    for (int64_t column = first; column < end; ++column) {
      make(input + in.at(image, row, column), output + out.at(image, row, column));
    }
    pixel += end - first;
  }
}

}  // namespace
}  // namespace calib8::engine
