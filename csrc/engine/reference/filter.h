// The packed weights of one output channel of a Conv, and its sum of products at a pixel.
#pragma once

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Where the weights of channel `output` begin within a group, and how far it is from one group of four to the
// next.
struct Filter {
  const int8_t* weights;
  int64_t step;
};

inline Filter filter_of(const Conv& step, const Memory& memory, int64_t group, int64_t output) {
  const int32_t* widths = memory.constant<int32_t>(step.panel_widths);
  const int8_t* panel = memory.constant<int8_t>(step.weights) + group * step.weight_bytes;
  int64_t first = 0;
  for (; output >= first + *widths * 16; ++widths) {
    panel += step.taps * step.depth * *widths * 16;
    first += *widths * 16;
  }
  return {panel + (output - first) * 4, *widths * int64_t{64}};
}

// bias + Σ_t Σ_k input[tap[t] + k] · w[t, k]
template <class Item>
int32_t sum_of_products(const Conv& step, const int64_t* taps, const Item* input, Filter filter,
                        int32_t bias) {
  auto acc = static_cast<uint32_t>(bias);  // wraps without harm: the whole sum fits int32
  for (int64_t t = 0; t < step.taps; ++t) {
    for (int64_t k = 0; k < step.depth; ++k) {
      const int8_t weight = filter.weights[(t * step.depth + k) / 4 * filter.step + k % 4];
      if (weight != 0) acc += static_cast<uint32_t>(int32_t{weight} * input[taps[t] + k]);
    }
  }
  return static_cast<int32_t>(acc);
}

}  // namespace
}  // namespace calib8::engine
