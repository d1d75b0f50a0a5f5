// GRUs of integers with vectors: sums and gates of a group of units, as many as a vector has lanes.
#pragma once

#include "integer_gru_sequences.h"
#include "integer_kernels.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Sums of all rows of codes and `gates` gates: put(row, gate, first unit, sums).
template <int gates, class Put>
void sums_of_rows(const PackedRows& packed, const uint8_t* codes, int64_t bytes, int64_t count,
                  const Put& put) {
  for (int64_t group = 0; group < packed.blocks * kGroups; ++group) {
    by_rows<kInputRows>(count, [&](auto rows, int64_t first) {
      const RowCodes<rows()> of(codes + first * bytes, bytes);
      Ints acc[rows()][gates];
      group_sums<rows(), gates>(packed, of.codes, group, acc);
      for (int row = 0; row < rows(); ++row) {
        for (int gate = 0; gate < gates; ++gate) put(first + row, gate, group * kLanes, acc[row][gate]);
      }
    });
  }
}

struct GruLaneOps {
  static void multiply_inputs(const GruLayer& layer, const IntegerGruScratch& scratch, int64_t rows) {
    sums_of_rows<3>(layer.of_x, scratch.inputs, scratch.row_bytes, rows,
                    [&](int64_t row, int64_t gate, int64_t unit, Ints sum) {
                      const CellFactor factor = layer.factors[IntegerGru::kWeight + gate];
                      V::store_words(scratch.sum_of(row, gate) + unit, scaled_lanes(sum, factor));
                    });
  }

  static void multiply_states(const GruLayer& layer, const IntegerGruScratch& scratch, int64_t first_row,
                              int64_t count) {
    sums_of_rows<2>(layer.of_h, scratch.states, scratch.state_bytes, count,
                    [&](int64_t sample, int64_t gate, int64_t unit, Ints sum) {
                      const CellFactor factor = layer.factors[IntegerGru::kRecurrent + gate];
                      const Ints u = V::numbers(scratch.sum_of(first_row + sample, gate) + unit);
                      const Ints v = bounded(scaled_lanes(sum, factor), -kMostGate, kMostGate);
                      V::store_words(scratch.gate_of(sample, gate) + unit, V::add32(u, v));
                    });
  }

  static void multiply_candidates(const GruLayer& layer, const IntegerGruScratch& scratch,
                                  const uint8_t* codes, int64_t count) {
    const CellFactor factor = layer.factors[IntegerGru::kRecurrent + kN];
    sums_of_rows<1>(layer.of_candidate, codes, scratch.state_bytes, count,
                    [&](int64_t sample, int64_t, int64_t unit, Ints sum) {
                      V::store_words(scratch.gate_of(sample, kN) + unit, scaled_lanes(sum, factor));
                    });
  }

  static void sigmoid(int16_t* gate, int64_t words) { IntegerLaneOps::sigmoid(gate, words); }

  static void tangent(int16_t* to, const int16_t* from, int64_t words) {
    tanh_of_words<kGateBits>(to, from, words);
  }

  static void reset(int16_t* to, const int16_t* r, const int16_t* from, int64_t words) {
    const Ints fifteen = V::all(15);
    for (int64_t i = 0; i < words; i += kLanes) {
      const Ints product = V::multiply32(V::numbers(r + i), V::numbers(from + i));
      V::store_words(to + i, rounding_divide(product, fifteen));
    }
  }

  static void add(int16_t* to, const int16_t* u, int64_t words) {
    for (int64_t i = 0; i < words; i += kLanes) {
      V::store_words(to + i, V::add32(V::numbers(to + i), V::numbers(u + i)));
    }
  }

  static void update(int16_t* h, const int16_t* z, const int16_t* n, int64_t words) {
    const Ints fifteen = V::all(15), one = V::all(kWordOne);
    for (int64_t i = 0; i < words; i += kLanes) {
      const Ints old = V::numbers(h + i), way = V::subtract32(V::numbers(n + i), old);
      const Ints part = V::multiply32(V::subtract32(one, V::numbers(z + i)), way);
      V::store_words(h + i, V::add32(old, rounding_divide(part, fifteen)));
    }
  }

  static void hidden_codes(const GruLayer& layer, const int16_t* h, uint8_t* codes) {
    const Ints zero = all_int(layer.step.h_zero);
    const CellFactor factor = layer.factors[IntegerGru::kHidden];
    for (int64_t unit = 0; unit < layer.step.units; unit += kLanes) {
      const Ints value = bounded(scaled_lanes(V::numbers(h + unit), factor), -kMostGate, kMostGate);
      V::store_numbers(codes + unit, bounded(V::add32(value, zero), 0, 255), layer.step.units - unit);
    }
  }
};

}  // namespace
}  // namespace calib8::engine
