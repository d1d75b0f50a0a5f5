// How to check what several kinds of steps have in common.
#pragma once

#include <cstdint>

#include "../limits.h"
#include "fields.h"

namespace calib8::engine {

constexpr int64_t kMostGeometry = int64_t{1} << 31;
inline bool within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

Extent box(const Axes& sizes, const Axes& strides);

// All of these throw std::invalid_argument where numbers are none of a plan, or lead outside.
void check_codes(int64_t low, int64_t high, int64_t size = 1);  // of items of 1 or 2 bytes; 4: sums
void check_fixed(int64_t multiplier, int64_t shift);
void check_rescale(const Rescale& rule, const Limits& limits, int64_t count, int64_t size = 1);
void check_activation(const Activation& activation, const Rescale& rule, const Limits& limits, int64_t count);
void check_sum(const SumRule& rule, int64_t output_size = 1, int64_t widest = 1);
void check_table(int64_t table, const Limits& limits);
void check_single(const Single& tensors, Limits& limits, int64_t item, int64_t output_size = 1);
void check_pair(const Pair& pair, Limits& limits, int64_t lhs_size = 1, int64_t rhs_size = 1,
                int64_t output_size = 1);
void check_window(const Window& window, const View& input, const View& output);
int64_t item_size(int64_t size);  // which must be that of codes or of sums

}  // namespace calib8::engine
