// Tables of depthwise layers, applied to codes that were just written.
//
// Everything has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <cstring>

#include "depthwise_task.h"
#include "lookup.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// codes[i] = table[codes[i]], nothing else written.
void look_up_line(const uint8_t* table, uint8_t* codes, int64_t count) {
  constexpr int64_t kLine = 64, kFew = 24;
  const int64_t whole = count / kLine * kLine, rest = count - whole;
  if (whole > 0) look_up(table, codes, codes, whole);
  if (rest < kFew) {
    for (int64_t i = whole; i < count; ++i) codes[i] = table[codes[i]];
    return;
  }
  alignas(64) uint8_t last[kLine] = {};
  std::memcpy(last, codes + whole, static_cast<size_t>(rest));
  look_up(table, last, last, kLine);
  std::memcpy(codes + whole, last, static_cast<size_t>(rest));
}

// A fused table, applied to codes that were just written: whole rows where pixels follow each other.
void apply_table(const Task& task) {
  const uint8_t* table = task.memory.constant<uint8_t>(task.step.table);
  const int64_t columns = task.step.output.columns, next = task.step.output.column_stride;
  const bool dense = task.channels == next;
  for (int64_t row = task.begin; row < task.end; ++row) {
    uint8_t* codes = task.output(row);
    if (dense) {
      look_up_line(table, codes, columns * next);
      continue;
    }
    for (int64_t column = 0; column < columns; ++column) {
      look_up_line(table, codes + column * next, task.channels);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
