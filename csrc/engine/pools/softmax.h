// Softmax with vectors where the rule is float32; the others compute a share once per code that occurs.
#pragma once

#include "lanes.h"
#include "reference/reference.h"
#include "scratch.h"
#include "shares.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kManyClasses = 128;  // from here on codes occur more than once

int64_t largest_code(const uint8_t* codes, int64_t classes) {
  Bytes best = V::set8(0);
  for (int64_t i = 0; i < classes; i += kWidth) {
    best = V::max8(best, V::first8(V::load(codes + i), classes - i));
  }
  return V::largest8(best);
}

struct SoftmaxRows {
  const Softmax& step;
  const uint8_t* codes;
  uint8_t* shares;
  const float* table;
  float* scratch;  // [kRowsAtOnce][stride]
  int64_t stride;
};

// Exponentials of `rows` rows into scratch memory, and their sums.
template <int rows>
void exponentials(const SoftmaxRows& all, float (&totals)[kRowsAtOnce]) {
  const int64_t classes = all.step.classes;
  const float* tables[rows];
  float sums[rows];
  for (int row = 0; row < rows; ++row) {
    tables[row] = all.table + 255 - largest_code(all.codes + row * classes, classes);
    sums[row] = 0;
  }
  for (int64_t i = 0; i < classes; ++i) {
    for (int row = 0; row < rows; ++row) {
      const float value = tables[row][all.codes[row * classes + i]];
      all.scratch[row * all.stride + i] = value;
      sums[row] += value;
    }
  }
  for (int row = 0; row < rows; ++row) totals[row] = sums[row];
}

template <int rows>
void float_softmax_rows(const SoftmaxRows& all) {
  float totals[kRowsAtOnce];
  exponentials<rows>(all, totals);
  const Softmax& step = all.step;
  const Floats factor = all_float(step.factor);
  const Floats low = all_float(-step.zero_point);
  const Floats high = all_float(255 - step.zero_point);
  const Ints zero = all_int(step.zero_point);
  for (int row = 0; row < rows; ++row) {
    const Floats total = V::all(totals[row]);
    for (int64_t i = 0; i < step.classes; i += kLanes) {
      const Floats value = V::multiply(V::numbers(all.scratch + row * all.stride + i), factor);
      const Ints codes = V::rounded(clamped(V::divide(value, total), low, high));
      V::store_numbers(all.shares + row * step.classes + i, V::add32(codes, zero), step.classes - i);
    }
  }
}

void float_softmax(const Softmax& step, const Memory& memory, Part part) {
  const Range rows = share(part, step.rows);
  SoftmaxRows all{step,
                  memory.data<uint8_t>(step.source_buffer, step.source_offset) + rows.begin * step.classes,
                  memory.data<uint8_t>(step.target_buffer, step.target_offset) + rows.begin * step.classes,
                  memory.constant<float>(step.table),
                  reinterpret_cast<float*>(memory.scratch),
                  (step.classes + kLanes - 1) / kLanes * kLanes};
  for (int64_t row = rows.begin; row < rows.end;) {
    const bool several = rows.end - row >= kRowsAtOnce;
    if (several) {
      float_softmax_rows<kRowsAtOnce>(all);
    } else {
      float_softmax_rows<1>(all);
    }
    const int64_t done = several ? kRowsAtOnce : 1;
    all.codes += done * step.classes;
    all.shares += done * step.classes;
    row += done;
  }
}

// One row of a rule of whole numbers.
void whole_softmax_row(const Softmax& step, const Memory& memory, const uint8_t* codes, uint8_t* shares) {
  const int64_t lift = 255 - largest_code(codes, step.classes);
  const int32_t* table = memory.constant<int32_t>(step.table) + lift;
  RowTotal total;
  const bool fixed = step.kind == Softmax::kFixed;
  for (int64_t i = 0; i < step.classes; ++i) {
    const int64_t exponential = table[codes[i]];
    total.whole += fixed ? rounding_divide(exponential, 12) : exponential;
  }
  finish_total(step, total);
  if (step.classes < kManyClasses) {
    for (int64_t i = 0; i < step.classes; ++i) shares[i] = share_of(step, memory, total, codes[i] + lift);
    return;
  }
  bool occurs[256] = {};
  for (int64_t i = 0; i < step.classes; ++i) occurs[codes[i]] = true;
  uint8_t share_of_code[256];
  for (int64_t code = 0; code <= 255 - lift; ++code) {
    if (occurs[code]) share_of_code[code] = share_of(step, memory, total, code + lift);
  }
  for (int64_t i = 0; i < step.classes; ++i) shares[i] = share_of_code[codes[i]];
}

void softmax(const Softmax& step, const Memory& memory, Part part) {
  if (step.kind == Softmax::kFloat) return float_softmax(step, memory, part);
  if (step.kind == Softmax::kReal) return reference_softmax(step, memory, part);
  const Range rows = share(part, step.rows);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    whole_softmax_row(step, memory,
                      memory.data<uint8_t>(step.source_buffer, step.source_offset) + row * step.classes,
                      memory.data<uint8_t>(step.target_buffer, step.target_offset) + row * step.classes);
  }
}

}  // namespace
}  // namespace calib8::engine
