// Products of recurrent layers with float gates, and the codes of their rows.
#pragma once

#include "row_products.h"
#include "sequences.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// fl(Σ) · fl(scale · scales of the weights)
inline Floats scaled_sum(Ints sum, float scale, const float* scales) {
  return V::multiply(V::floats(sum), V::multiply(V::all(scale), V::numbers(scales)));
}

// u of the formulas for some rows and a group of units.
template <int rows, int gates>
void input_tile(const Direction& direction, const CellScratch& scratch, int64_t row, int64_t block,
                int64_t group) {
  const uint8_t* codes[rows];
  for (int i = 0; i < rows; ++i) codes[i] = scratch.inputs + (row + i) * scratch.row_bytes;
  const int64_t lane = block * gates * Recurrent::kBlock + group * kLanes, stride = 64 * gates;
  const int8_t* weights = direction.weight + block * direction.input_quads * stride + group * kWidth;
  Ints acc[rows][gates];
  add_products<rows, gates>(codes, weights, stride, direction.input_quads, direction.weight_sum + lane, acc);
  for (int i = 0; i < rows; ++i) {
    for (int gate = 0; gate < gates; ++gate) {
      const int64_t at = lane + gate * Recurrent::kBlock;
      const Floats value = scaled_sum(acc[i][gate], scratch.scales[row + i], direction.weight_scale + at);
      const Floats moved = V::add(value, V::numbers(direction.bias + at));
      V::store(scratch.sums + (row + i) * scratch.lanes + at, V::as_ints(moved));
    }
  }
}

template <int rows, int gates>
void input_rest(const Direction& direction, const CellScratch& scratch, int64_t row, int64_t left,
                int64_t block, int64_t group) {
  if constexpr (rows > 0) {
    if (left == rows) return input_tile<rows, gates>(direction, scratch, row, block, group);
    input_rest<rows - 1, gates>(direction, scratch, row, left, block, group);
  }
}

template <int gates>
void multiply_inputs_of(const Direction& direction, const CellScratch& scratch, int64_t rows) {
  for (int64_t block = 0; block < direction.blocks; ++block) {
    for (int64_t group = 0; group < kGroups; ++group) {
      int64_t row = 0;
      for (; row + kRowsAtATime <= rows; row += kRowsAtATime) {
        input_tile<kRowsAtATime, gates>(direction, scratch, row, block, group);
      }
      input_rest<kRowsAtATime - 1, gates>(direction, scratch, row, rows - row, block, group);
    }
  }
}

// The largest of numbers that are not negative, or 0.
inline uint32_t largest_lane(Ints numbers) {
  int32_t lanes[kLanes], most = 0;
  V::store(lanes, numbers);
  for (const int32_t lane : lanes) most = lane > most ? lane : most;
  return static_cast<uint32_t>(most);
}

// The bits of the largest magnitude of a row.
inline uint32_t largest_magnitude(const float* values, int64_t count) {
  Ints largest = V::zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = V::max32(largest, V::as_ints(magnitude_of(V::numbers(values + i))));
  }
  return largest_lane(largest);
}

// Codes plus 128 of a row, and its scale; `bits` are those of its largest magnitude.
inline float code_lanes(const float* values, int64_t count, uint32_t bits, uint8_t* codes) {
  if (bits >= kInfinity || bits < kLeastCoded) {
    for (int64_t i = 0; i < count; ++i) codes[i] = 128;
    return bits >= kInfinity ? number_of(kNotANumber) : 0.0F;
  }
  const Floats factor = V::all(127.0F / number_of(bits));
  const Ints low = V::all(-127), high = V::all(127), shift = V::all(128);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Ints code = V::rounded(V::multiply(V::numbers(values + i), factor));
    V::store_numbers(codes + i, V::add32(V::min32(V::max32(code, low), high), shift), count - i);
  }
  return number_of(bits) / 127.0F;
}

}  // namespace
}  // namespace calib8::engine
