// Sums of recurrent layers of integers in plain loops, one unit after the other.
#pragma once

#include "recurrent/integer_sequences.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Σ raw codes · weights + start of a unit.
[[maybe_unused]] inline int64_t sum_of(const PackedRows& rows, const uint8_t* codes, int64_t gate,
                                       int64_t unit) {
  int32_t sum = 0;
  const int64_t block = unit / IntegerLstm::kBlock, place = unit % IntegerLstm::kBlock;
  for (int64_t quad = 0; quad < rows.quads; ++quad) {
    const int64_t at = ((block * rows.quads + quad) * rows.gates + gate) * IntegerLstm::kBlock + place;
    for (int64_t i = 0; i < 4; ++i) sum += (codes[4 * quad + i] - 128) * rows.weights[4 * at + i];
  }
  return int64_t{sum} + rows.start[(block * rows.gates + gate) * IntegerLstm::kBlock + place];
}

[[maybe_unused]] inline int64_t scaled(int64_t value, CellFactor factor) {
  return multiply_double(value, factor.multiplier, factor.shift);
}

[[maybe_unused]] inline int16_t word(int64_t value) { return static_cast<int16_t>(saturated16(value)); }

}  // namespace
}  // namespace calib8::engine
