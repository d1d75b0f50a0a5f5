// All elements of elementwise steps, one after the other.
#pragma once

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Calls visit(place of lhs, of rhs, of the output, index along the last axis) for every element of a share.
template <class Visit>
void each_element(const Pair& pair, Part part, Visit visit) {
  int64_t count = 1;
  for (const int64_t size : pair.sizes) count *= size;
  const Range elements = share(part, count);
  for (int64_t element = elements.begin; element < elements.end; ++element) {
    int64_t rest = element, lhs = 0, rhs = 0, output = 0;
    for (int axis = kAxes - 1; axis >= 0; --axis) {
      const int64_t index = rest % pair.sizes[axis];
      rest /= pair.sizes[axis];
      lhs += index * pair.lhs_strides[axis];
      rhs += index * pair.rhs_strides[axis];
      output += index * pair.output_strides[axis];
    }
    visit(lhs, rhs, output, element % pair.sizes[kAxes - 1]);
  }
}

template <class Visit>
void each_element(const Single& tensors, Part part, Visit visit) {
  Pair pair{};
  pair.sizes = tensors.sizes;
  pair.lhs_strides = tensors.input_strides;
  pair.output_strides = tensors.output_strides;
  each_element(pair, part, [&](int64_t input, int64_t, int64_t output, int64_t channel) {
    visit(input, output, channel);
  });
}

}  // namespace
}  // namespace calib8::engine
