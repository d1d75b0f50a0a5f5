// MatMul of two activations: pairs of int16 steps (code − zero point) multiplied and added.
//
// A panel of kPanel columns of the right matrix is packed as [depth / 2][kPanel][2] in scratch memory; behind
// it, kTall rows of the left one as [kTall][depth] are multiplied with it.
#pragma once

#include <cstring>

#include "lanes.h"
#include "rules.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kPanel = 2 * kLanes;
static_assert(kPanel <= kMostPanelColumns, "more than its scratch memory");

struct MatMulScratch {
  int16_t *panel, *rows;
  int64_t pairs;  // of depth, rounded up
};

void pack_panel(const MatMul& step, const uint8_t* rhs, int64_t columns, const MatMulScratch& scratch) {
  const auto zero = static_cast<int16_t>(step.rhs_zero);
  for (int64_t pair = 0; pair < scratch.pairs; ++pair) {
    const uint8_t* upper = rhs + 2 * pair * step.columns;
    const uint8_t* lower = upper + step.columns;
    const bool both = 2 * pair + 1 < step.depth;
    int16_t* target = scratch.panel + pair * kPanel * 2;
    for (int64_t column = 0; column < columns; ++column) {
      target[2 * column] = static_cast<int16_t>(upper[column] - zero);
      target[2 * column + 1] = both ? static_cast<int16_t>(lower[column] - zero) : int16_t{0};
    }
    for (int64_t i = 2 * columns; i < 2 * kPanel; ++i) target[i] = 0;
  }
}

void pack_rows(const MatMul& step, const uint8_t* lhs, int64_t rows, const MatMulScratch& scratch) {
  const auto zero = static_cast<int16_t>(step.lhs_zero);
  for (int64_t row = 0; row < kTall; ++row) {
    const uint8_t* codes = lhs + (row < rows ? row : rows - 1) * step.depth;
    int16_t* target = scratch.rows + row * 2 * scratch.pairs;
    for (int64_t k = 0; k < step.depth; ++k) target[k] = static_cast<int16_t>(codes[k] - zero);
    if (step.depth % 2 != 0) target[step.depth] = 0;
  }
}

Ints splat_pair(const int16_t* from) {
  int32_t pair = 0;
  std::memcpy(&pair, from, sizeof pair);
  return V::all(pair);
}

// Sums of kTall rows and kPanel columns.
void multiply_tile(const MatMulScratch& scratch, int32_t (&acc)[kTall][kPanel]) {
  Ints a0 = V::all(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
  const int16_t *rows = scratch.rows, *panel = scratch.panel;
  const int64_t stride = 2 * scratch.pairs;
  for (int64_t pair = 0; pair < scratch.pairs; ++pair, rows += 2, panel += 2 * kPanel) {
    const Ints low = V::numbers(reinterpret_cast<const int32_t*>(panel));
    const Ints high = V::numbers(reinterpret_cast<const int32_t*>(panel) + kLanes);
    const Ints a = splat_pair(rows), b = splat_pair(rows + stride);
    const Ints c = splat_pair(rows + 2 * stride), d = splat_pair(rows + 3 * stride);
    a0 = V::add_products16(a0, a, low), a1 = V::add_products16(a1, a, high);
    b0 = V::add_products16(b0, b, low), b1 = V::add_products16(b1, b, high);
    c0 = V::add_products16(c0, c, low), c1 = V::add_products16(c1, c, high);
    d0 = V::add_products16(d0, d, low), d1 = V::add_products16(d1, d, high);
  }
  V::store(acc[0], a0), V::store(acc[0] + kLanes, a1);
  V::store(acc[1], b0), V::store(acc[1] + kLanes, b1);
  V::store(acc[2], c0), V::store(acc[2] + kLanes, c1);
  V::store(acc[3], d0), V::store(acc[3] + kLanes, d1);
}

// One row of sums to where it belongs: `place` is the element of the output.
void store_products(const MatMul& step, const Memory& memory, const int32_t* acc, int64_t columns,
                    int64_t place) {
  const Rescale& rule = step.rescale;
  if (rule.kind == Rescale::kNone) {
    std::memcpy(memory.data<int32_t>(step.target_buffer, step.target_offset) + place, acc,
                static_cast<size_t>(columns) * sizeof *acc);
    return;
  }
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset) + place;
  if (rule.kind != Rescale::kFloat) {
    for (int64_t i = 0; i < columns; ++i) target[i] = rescaled(rule, memory, acc[i], 0);
    return;
  }
  const Floats factor = V::all(*memory.constant<float>(rule.factor));
  const Floats low = all_float(rule.low - rule.zero_point);
  const Floats high = all_float(rule.high - rule.zero_point);
  const Ints zero = all_int(rule.zero_point);
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Floats value = clamped(V::multiply(V::floats(V::numbers(acc + i)), factor), low, high);
    V::store_numbers(target + i, V::add32(V::rounded(value), zero), columns - i);
  }
}

void mat_mul(const MatMul& step, const Memory& memory, Part part) {
  const int64_t pairs = (step.depth + 1) / 2, panels = (step.columns + kPanel - 1) / kPanel;
  auto* panel = reinterpret_cast<int16_t*>(memory.scratch);
  const MatMulScratch scratch{panel, panel + pairs * kPanel * 2, pairs};
  const Range items = share(part, step.batches * panels);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t batch = item / panels, first = item % panels * kPanel;
    const int64_t columns = step.columns - first < kPanel ? step.columns - first : kPanel;
    const uint8_t* lhs = memory.data<uint8_t>(step.lhs_buffer, step.lhs_offset) +
                         memory.constant<int64_t>(step.lhs_starts)[batch];
    const uint8_t* rhs = memory.data<uint8_t>(step.rhs_buffer, step.rhs_offset) +
                         memory.constant<int64_t>(step.rhs_starts)[batch] + first;
    pack_panel(step, rhs, columns, scratch);
    for (int64_t row = 0; row < step.rows; row += kTall) {
      const int64_t rows = step.rows - row < kTall ? step.rows - row : kTall;
      pack_rows(step, lhs + row * step.depth, rows, scratch);
      alignas(64) int32_t acc[kTall][kPanel];
      multiply_tile(scratch, acc);
      for (int64_t i = 0; i < rows; ++i) {
        store_products(step, memory, acc[i], columns, (batch * step.rows + row + i) * step.columns + first);
      }
    }
  }
}

}  // namespace
}  // namespace calib8::engine
