// Reductions in plain loops: means, lengths, largest and smallest codes over axes, and where the largest
// lies.
#include "pools/lengths.h"
#include "reference.h"

namespace calib8::engine {
namespace {

int64_t elements(const Axes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

// Elements from the first one to that with this place in row-major order.
int64_t distance(int64_t place, const Axes& sizes, const Axes& strides) {
  int64_t sum = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    sum += place % sizes[axis] * strides[axis];
    place /= sizes[axis];
  }
  return sum;
}

uint8_t reduced(const Reduce& step, const Memory& memory, const uint8_t* source) {
  int64_t total = 0, squares = 0;
  uint8_t largest = 0, smallest = 255;
  const int64_t count = elements(step.inner_sizes);
  for (int64_t place = 0; place < count; ++place) {
    const uint8_t code = source[distance(place, step.inner_sizes, step.inner_strides)];
    const int64_t centred = code - step.zero_point;
    total += centred;
    squares += centred * centred;
    if (code > largest) largest = code;
    if (code < smallest) smallest = code;
  }
  if (step.kind == Reduce::kMean) return rescaled(step.rescale, memory, static_cast<int32_t>(total), 0);
  if (step.kind == Reduce::kLength) return length_code(step, memory, squares);
  return step.kind == Reduce::kLargest ? largest : smallest;
}

template <class Index>
void arg_max(const ArgMax& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  Index* target = memory.data<Index>(step.target_buffer, step.target_offset);
  const Range places = share(part, step.outer * step.inner);
  for (int64_t place = places.begin; place < places.end; ++place) {
    const uint8_t* codes = source + place / step.inner * step.length * step.inner + place % step.inner;
    int64_t best = 0;
    for (int64_t i = 1; i < step.length; ++i) {
      const uint8_t code = codes[i * step.inner], other = codes[best * step.inner];
      if (code > other || (step.last != 0 && code == other)) best = i;
    }
    target[place] = static_cast<Index>(best);
  }
}

}  // namespace

void reference_reduce(const Reduce& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const Range places = share(part, elements(step.outer_sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    target[distance(place, step.outer_sizes, step.target_strides)] =
        reduced(step, memory, source + distance(place, step.outer_sizes, step.outer_strides));
  }
}

void reference_arg_max(const ArgMax& step, const Memory& memory, Part part) {
  if (step.item == 4) {
    arg_max<int32_t>(step, memory, part);
  } else {
    arg_max<int64_t>(step, memory, part);
  }
}

}  // namespace calib8::engine
