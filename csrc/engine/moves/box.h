// The part of a move that falls to one thread: nested loops over up to three tensors.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int kInner = kAxes - 1;

// Where an element lies in source, target and scales.
struct Place {
  const uint8_t* source;
  uint8_t* target;
  const uint8_t* scale;
};

struct Box {
  Place first;
  int64_t sizes[kAxes], source_strides[kAxes], target_strides[kAxes], scale_strides[kAxes];  // bytes
  const int64_t* tables[kAxes];  // of the source, null for none

  int64_t source_at(int axis, int64_t index) const {
    return tables[axis] != nullptr ? tables[axis][index] : index * source_strides[axis];
  }
  Place moved(Place place, int axis, int64_t index) const {
    return {place.source + source_at(axis, index), place.target + index * target_strides[axis],
            place.scale + index * scale_strides[axis]};
  }
};

// All of a step: what Copy, Quantize and Dequantize have in common.
template <class Step>
inline Box whole_box(const Step& step, const Memory& memory) {
  Box box{};
  box.first.source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  box.first.target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  for (int axis = 0; axis < kAxes; ++axis) {
    box.sizes[axis] = step.sizes[axis];
    box.source_strides[axis] = step.source_strides[axis];
    box.target_strides[axis] = step.target_strides[axis];
  }
  return box;
}

// The share of a part: the outermost axis that is long enough is cut, else the longest one.
[[maybe_unused]] inline Box share_of(Box box, Part part) {
  constexpr int64_t kEnough = 16, kGrain = 16;
  int cut = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    const bool enough = box.sizes[axis] >= kEnough * part.count;
    if (enough || (box.sizes[axis] > box.sizes[cut] && box.sizes[cut] < kEnough * part.count)) cut = axis;
  }
  const int64_t grain = box.sizes[cut] >= 8 * kGrain * part.count ? kGrain : 1;
  const Range range = share(part, box.sizes[cut], grain);
  if (box.tables[cut] != nullptr) {
    box.tables[cut] += range.begin;
  } else {
    box.first.source += range.begin * box.source_strides[cut];
  }
  box.first.target += range.begin * box.target_strides[cut];
  box.first.scale += range.begin * box.scale_strides[cut];
  box.sizes[cut] = range.end - range.begin;
  return box;
}

// visit(place) for every index of the axes from `axis` on.
template <int axis = 0, class Visit>
inline void walk(const Box& box, Place place, const Visit& visit) {
  if constexpr (axis == kAxes) {
    visit(place);
  } else {
    for (int64_t index = 0; index < box.sizes[axis]; ++index) {
      walk<axis + 1>(box, box.moved(place, axis, index), visit);
    }
  }
}

// visit(place) for every index of all axes but one or two.
template <class Visit>
inline void walk_around(Box box, int axis, int other, const Visit& visit) {
  box.sizes[axis] = box.sizes[axis] < 1 ? box.sizes[axis] : 1;
  box.sizes[other] = box.sizes[other] < 1 ? box.sizes[other] : 1;
  if (box.tables[axis] != nullptr) box.tables[axis] = nullptr, box.source_strides[axis] = 0;
  if (box.tables[other] != nullptr) box.tables[other] = nullptr, box.source_strides[other] = 0;
  walk(box, box.first, visit);
}

// The axis along which the bytes of the source lie side by side, elements of `size` bytes; −1: there is none.
[[maybe_unused]] inline int source_axis(const Box& box, int64_t size) {
  for (int axis = kInner - 1; axis >= 0; --axis) {
    if (box.source_strides[axis] == size && box.tables[axis] == nullptr && box.sizes[axis] > 1) return axis;
  }
  return -1;
}

}  // namespace
}  // namespace calib8::engine
