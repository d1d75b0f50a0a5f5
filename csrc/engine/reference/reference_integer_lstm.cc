// LSTMs in integers in plain loops: sums, gates and codes of one unit after the other.
#include "integer_sums.h"
#include "reference.h"

namespace calib8::engine {
namespace {

struct PlainOps {
  static void multiply_inputs(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t rows) {
    const int64_t first = layer.first_gate();
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* codes = scratch.inputs + row * scratch.row_bytes;
      for (int64_t gate = first; gate < IntegerLstm::kGates; ++gate) {
        const CellFactor factor = layer.factors[IntegerLstm::kWeight + gate];
        int16_t* to = scratch.sum_of(row, gate);
        for (int64_t unit = 0; unit < layer.step.units; ++unit) {
          to[unit] = word(scaled(sum_of(layer.of_x, codes, gate - first, unit), factor));
        }
      }
    }
  }

  static void multiply_states(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t first_row,
                              int64_t count) {
    const int64_t first = layer.first_gate();
    for (int64_t sample = 0; sample < count; ++sample) {
      const uint8_t* codes = scratch.states + sample * scratch.state_bytes;
      for (int64_t gate = first; gate < IntegerLstm::kGates; ++gate) {
        const CellFactor factor = layer.factors[IntegerLstm::kRecurrent + gate];
        const int16_t* u = scratch.sum_of(first_row + sample, gate);
        int16_t* to = scratch.gate_of(sample, gate);
        for (int64_t unit = 0; unit < layer.step.units; ++unit) {
          to[unit] = word(u[unit] + scaled(sum_of(layer.of_h, codes, gate - first, unit), factor));
        }
      }
    }
  }

  static void add_seen(int16_t* gate, const int16_t* c, const int16_t* weights, CellFactor factor,
                       int64_t words) {
    for (int64_t i = 0; i < words; ++i) gate[i] = word(gate[i] + scaled(int64_t{c[i]} * weights[i], factor));
  }

  static void sigmoid(int16_t* gate, int64_t words) {
    for (int64_t i = 0; i < words; ++i) gate[i] = word_sigmoid(gate[i]);
  }

  static void tangent(int16_t* to, const int16_t* from, int bits, int64_t words) {
    for (int64_t i = 0; i < words; ++i) to[i] = word_tanh(from[i], bits);
  }

  static void update(const IntegerLayer& layer, const int16_t* i, const int16_t* f, const int16_t* g,
                     int16_t* c) {
    const int64_t clip = layer.step.cell_clip;
    for (int64_t unit = 0; unit < layer.step.words(); ++unit) {
      const int32_t in = i == nullptr ? kWordOne - f[unit] : i[unit];
      const int64_t kept = rounding_divide(f[unit] * c[unit], 15);
      const int16_t next = word(kept + rounding_divide(in * g[unit], 15 + layer.step.cell_bits));
      c[unit] = clip > 0 ? static_cast<int16_t>(clamped(next, -clip, clip)) : next;
    }
  }

  static void hidden_codes(const IntegerLayer& layer, const int16_t* o, const int16_t* tangent,
                           uint8_t* codes) {
    const int64_t zero = stored_hidden_zero(layer.step);
    for (int64_t unit = 0; unit < layer.step.units; ++unit) {
      const int64_t value = scaled(int64_t{o[unit]} * tangent[unit], layer.factors[IntegerLstm::kHidden]);
      codes[unit] = static_cast<uint8_t>(clamped(value + zero, 0, 255));
    }
  }

  static void project(const IntegerLayer& layer, const IntegerCellScratch& scratch, int64_t count) {
    for (int64_t sample = 0; sample < count; ++sample) {
      const uint8_t* from = scratch.hidden + sample * scratch.hidden_bytes;
      uint8_t* to = scratch.states + sample * scratch.state_bytes;
      for (int64_t row = 0; row < layer.step.width; ++row) {
        to[row] = projected_code(layer, sum_of(layer.of_hidden, from, 0, row));
      }
    }
  }
};

}  // namespace

void reference_integer_lstm(const IntegerLstm& step, const Memory& memory, Part part) {
  run_integer_teams<PlainOps>(step, memory, part);
}

}  // namespace calib8::engine
