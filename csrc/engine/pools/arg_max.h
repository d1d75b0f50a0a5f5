// ArgMax with vectors: along a row of codes, or for kLanes neighbours at a time.
#pragma once

#include "lanes.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

int64_t arg_max_of_row(const uint8_t* codes, int64_t length, bool last) {
  Bytes best = V::set8(0);
  for (int64_t i = 0; i < length; i += kWidth)
    best = V::max8(best, V::first8(V::load(codes + i), length - i));
  const Bytes largest = V::set8(V::largest8(best));
  const int64_t vectors = (length + kWidth - 1) / kWidth;
  for (int64_t i = 0; i < vectors; ++i) {
    const int64_t first = (last ? vectors - 1 - i : i) * kWidth, count = length - first;
    uint64_t found = V::equal8(V::load(codes + first), largest);
    if (count < 64) found &= (uint64_t{1} << count) - 1;
    if (found != 0) return first + (last ? 63 - __builtin_clzll(found) : __builtin_ctzll(found));
  }
  return 0;
}

// kLanes neighbours, of which `count` are stored.
template <class Index>
void arg_max_of_columns(const uint8_t* codes, const ArgMax& step, Index* target, int64_t count) {
  Ints best = V::numbers(codes), index = V::all(0);
  for (int64_t i = 1; i < step.length; ++i) {
    const Ints next = V::numbers(codes + i * step.inner);
    index = V::where_greater32(next, best, step.last != 0, all_int(i), index);
    best = V::max32(best, next);
  }
  int32_t each[kLanes];
  V::store(each, index);
  for (int64_t i = 0; i < count && i < kLanes; ++i) target[i] = each[i];
}

template <class Index>
void arg_max_of(const ArgMax& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  Index* target = memory.data<Index>(step.target_buffer, step.target_offset);
  if (step.inner == 1) {
    const Range rows = share(part, step.outer);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t best = arg_max_of_row(source + row * step.length, step.length, step.last != 0);
      target[row] = static_cast<Index>(best);
    }
    return;
  }
  const int64_t groups = (step.inner + kLanes - 1) / kLanes;
  const Range items = share(part, step.outer * groups);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t outer = item / groups, first = item % groups * kLanes;
    arg_max_of_columns(source + outer * step.length * step.inner + first, step,
                       target + outer * step.inner + first, step.inner - first);
  }
}

void arg_max(const ArgMax& step, const Memory& memory, Part part) {
  if (step.item == 4) {
    arg_max_of<int32_t>(step, memory, part);
  } else {
    arg_max_of<int64_t>(step, memory, part);
  }
}

}  // namespace
}  // namespace calib8::engine
