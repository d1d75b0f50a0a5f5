// LSTMs of integers with vectors: sums and gates of a group of units, as many as a vector has lanes.
#pragma once

#include <type_traits>

#include "integer_curves.h"
#include "integer_sequences.h"
#include "lanes_fixed.h"
#include "row_products.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline Ints scaled_lanes(Ints x, CellFactor factor) {
  const Ints multiplier = V::all(factor.multiplier);
  if (factor.shift > 0) return multiply_double(x, multiplier, V::all(factor.shift));
  return multiply_double_right(x, multiplier, V::all(-factor.shift));
}

inline Ints bounded(Ints x, int32_t low, int32_t high) {
  return V::min32(V::max32(x, V::all(low)), V::all(high));
}

// Sums of raw codes of `rows` rows and all gates of a group of units.
template <int rows, int gates>
void group_sums(const PackedRows& packed, const uint8_t* const* codes, int64_t group, Ints (*acc)[gates]) {
  const int64_t block = group / kGroups, within_block = group % kGroups;
  const int64_t lane = block * gates * IntegerLstm::kBlock + within_block * kLanes, stride = 64 * gates;
  const int8_t* weights = packed.weights + block * packed.quads * stride + within_block * kWidth;
  add_products<rows, gates>(codes, weights, stride, packed.quads, packed.sum + lane, acc);
  for (int gate = 0; gate < gates; ++gate) {
    const Ints start = V::numbers(packed.start + lane + gate * IntegerLstm::kBlock);
    for (int row = 0; row < rows; ++row) acc[row][gate] = V::add32(acc[row][gate], start);
  }
}

// Rows by as many as registers hold: some(number of rows, first row).
template <int most, class Some>
void by_rows(int64_t count, const Some& some) {
  int64_t first = 0;
  if constexpr (most > 1) {
    for (; first + most <= count; first += most) some(std::integral_constant<int, most>(), first);
    by_rows<most / 2>(count - first, [&](auto rows, int64_t row) { some(rows, first + row); });
  } else {
    for (; first < count; ++first) some(std::integral_constant<int, 1>(), first);
  }
}
constexpr int kInputRows = kWidth == 64 ? 6 : 2, kStateRows = kWidth == 64 ? 4 : 2;

template <int rows>
struct RowCodes {
  const uint8_t* codes[rows];

  RowCodes(const uint8_t* first, int64_t bytes) {
    for (int i = 0; i < rows; ++i) codes[i] = first + i * bytes;
  }
};

template <int gates>
void input_sums(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t count) {
  for (int64_t group = 0; group < layer.of_x.blocks * kGroups; ++group) {
    by_rows<kInputRows>(count, [&](auto rows, int64_t first) {
      const RowCodes<rows()> of(scratch.inputs + first * scratch.row_bytes, scratch.row_bytes);
      Ints acc[rows()][gates];
      group_sums<rows(), gates>(layer.of_x, of.codes, group, acc);
      for (int gate = 0; gate < gates; ++gate) {
        const int64_t number = layer.first_gate() + gate;
        const CellFactor factor = layer.factors[IntegerLstm::kWeight + number];
        for (int row = 0; row < rows(); ++row) {
          V::store_words(scratch.sum_of(first + row, number) + group * kLanes,
                         scaled_lanes(acc[row][gate], factor));
        }
      }
    });
  }
}

template <int gates>
void state_sums(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t first_row,
                int64_t count) {
  for (int64_t group = 0; group < layer.of_h.blocks * kGroups; ++group) {
    by_rows<kStateRows>(count, [&](auto rows, int64_t first) {
      const RowCodes<rows()> of(scratch.states + first * scratch.state_bytes, scratch.state_bytes);
      Ints acc[rows()][gates];
      group_sums<rows(), gates>(layer.of_h, of.codes, group, acc);
      for (int gate = 0; gate < gates; ++gate) {
        const int64_t number = layer.first_gate() + gate;
        const CellFactor factor = layer.factors[IntegerLstm::kRecurrent + number];
        for (int row = 0; row < rows(); ++row) {
          const int64_t sample = first + row;
          const Ints u = V::numbers(scratch.sum_of(first_row + sample, number) + group * kLanes);
          const Ints v = bounded(scaled_lanes(acc[row][gate], factor), -kMostGate, kMostGate);
          V::store_words(scratch.gate_of(sample, number) + group * kLanes, V::add32(u, v));
        }
      }
    });
  }
}

struct IntegerLaneOps {
  static void multiply_inputs(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t rows) {
    if (layer.of_x.gates == 4) return input_sums<4>(layer, scratch, rows);
    input_sums<3>(layer, scratch, rows);
  }

  static void multiply_states(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t first_row,
                              int64_t count) {
    if (layer.of_h.gates == 4) return state_sums<4>(layer, scratch, first_row, count);
    state_sums<3>(layer, scratch, first_row, count);
  }

  static void add_seen(int16_t* gate, const int16_t* c, const int16_t* weights, CellFactor factor,
                       int64_t words) {
    for (int64_t i = 0; i < words; i += kLanes) {
      const Ints product = V::multiply32(V::numbers(c + i), V::numbers(weights + i));
      const Ints seen = bounded(scaled_lanes(product, factor), -kMostGate, kMostGate);
      V::store_words(gate + i, V::add32(V::numbers(gate + i), seen));
    }
  }

  static void sigmoid(int16_t* gate, int64_t words) {
    for (int64_t i = 0; i < words; i += kWords) V::store(gate + i, sigmoid_words(V::load(gate + i)));
  }

  static void tangent(int16_t* to, const int16_t* from, int bits, int64_t words) {
    tanh_with(to, from, bits, words);
  }

  static void update(const IntegerLayer& layer, const int16_t* i, const int16_t* f, const int16_t* g,
                     int16_t* c) {
    const auto clip = static_cast<int32_t>(layer.step.cell_clip > 0 ? layer.step.cell_clip : INT16_MAX);
    const int32_t least = layer.step.cell_clip > 0 ? -clip : INT16_MIN;
    const Ints fifteen = V::all(15), right = V::all(static_cast<int32_t>(15 + layer.step.cell_bits));
    for (int64_t unit = 0; unit < layer.step.words(); unit += kLanes) {
      const Ints forget = V::numbers(f + unit);
      const Ints in = i == nullptr ? V::subtract32(V::all(kWordOne), forget) : V::numbers(i + unit);
      const Ints kept = rounding_divide(V::multiply32(forget, V::numbers(c + unit)), fifteen);
      const Ints added = rounding_divide(V::multiply32(in, V::numbers(g + unit)), right);
      V::store_words(c + unit, bounded(V::add32(kept, added), least, clip));
    }
  }

  static void hidden_codes(const IntegerLayer& layer, const int16_t* o, const int16_t* tangent,
                           uint8_t* codes) {
    const Ints zero = all_int(stored_hidden_zero(layer.step));
    const CellFactor factor = layer.factors[IntegerLstm::kHidden];
    for (int64_t unit = 0; unit < layer.step.units; unit += kLanes) {
      const Ints product = V::multiply32(V::numbers(o + unit), V::numbers(tangent + unit));
      const Ints value = bounded(scaled_lanes(product, factor), -kMostGate, kMostGate);
      V::store_numbers(codes + unit, bounded(V::add32(value, zero), 0, 255), layer.step.units - unit);
    }
  }

  static void project(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t count) {
    const auto zero = static_cast<int32_t>(layer.step.h_zero - 128);
    const auto clip = static_cast<int32_t>(layer.step.projection_clip);
    const int32_t least = clip > 0 ? -clip : INT8_MIN, most = clip > 0 ? clip : INT8_MAX;
    const CellFactor factor = layer.factors[IntegerLstm::kProjection];
    for (int64_t group = 0; group * kLanes < layer.step.width; ++group) {
      by_rows<kStateRows>(count, [&](auto rows, int64_t first) {
        const RowCodes<rows()> of(scratch.hidden + first * scratch.hidden_bytes, scratch.hidden_bytes);
        Ints acc[rows()][1];
        group_sums<rows(), 1>(layer.of_hidden, of.codes, group, acc);
        for (int row = 0; row < rows(); ++row) {
          const Ints value = bounded(scaled_lanes(acc[row][0], factor), -kMostGate, kMostGate);
          const Ints code = bounded(V::add32(value, V::all(zero)), least, most);
          uint8_t* to = scratch.states + (first + row) * scratch.state_bytes + group * kLanes;
          V::store_numbers(to, V::add32(code, V::all(128)), layer.step.width - group * kLanes);
        }
      });
    }
  }
};

}  // namespace
}  // namespace calib8::engine
