// GRUs in integers in plain loops: sums, gates and codes of one unit after the other.
#include "integer_sums.h"
#include "recurrent/integer_gru_sequences.h"
#include "reference.h"

namespace calib8::engine {
namespace {

struct PlainGru {
  static void multiply_inputs(const GruLayer& layer, const IntegerGruScratch& scratch, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* codes = scratch.inputs + row * scratch.row_bytes;
      for (int64_t gate = 0; gate < IntegerGru::kGates; ++gate) {
        const CellFactor factor = layer.factors[IntegerGru::kWeight + gate];
        int16_t* to = scratch.sum_of(row, gate);
        for (int64_t unit = 0; unit < layer.step.units; ++unit) {
          to[unit] = word(scaled(sum_of(layer.of_x, codes, gate, unit), factor));
        }
      }
    }
  }

  static void multiply_states(const GruLayer& layer, const IntegerGruScratch& scratch, int64_t first_row,
                              int64_t count) {
    for (int64_t sample = 0; sample < count; ++sample) {
      const uint8_t* codes = scratch.states + sample * scratch.state_bytes;
      for (int64_t gate = kZ; gate <= kR; ++gate) {
        const CellFactor factor = layer.factors[IntegerGru::kRecurrent + gate];
        const int16_t* u = scratch.sum_of(first_row + sample, gate);
        int16_t* to = scratch.gate_of(sample, gate);
        for (int64_t unit = 0; unit < layer.step.units; ++unit) {
          to[unit] = word(u[unit] + scaled(sum_of(layer.of_h, codes, gate, unit), factor));
        }
      }
    }
  }

  static void multiply_candidates(const GruLayer& layer, const IntegerGruScratch& scratch,
                                  const uint8_t* codes, int64_t count) {
    const CellFactor factor = layer.factors[IntegerGru::kRecurrent + kN];
    for (int64_t sample = 0; sample < count; ++sample) {
      int16_t* to = scratch.gate_of(sample, kN);
      for (int64_t unit = 0; unit < layer.step.units; ++unit) {
        const int64_t sum = sum_of(layer.of_candidate, codes + sample * scratch.state_bytes, 0, unit);
        to[unit] = word(scaled(sum, factor));
      }
    }
  }

  static void sigmoid(int16_t* gate, int64_t words) {
    for (int64_t i = 0; i < words; ++i) gate[i] = word_sigmoid(gate[i]);
  }

  static void tangent(int16_t* to, const int16_t* from, int64_t words) {
    for (int64_t i = 0; i < words; ++i) to[i] = word_tanh(from[i], kGateBits);
  }

  static void reset(int16_t* to, const int16_t* r, const int16_t* from, int64_t words) {
    for (int64_t i = 0; i < words; ++i) to[i] = word(rounding_divide(r[i] * from[i], 15));
  }

  static void add(int16_t* to, const int16_t* u, int64_t words) {
    for (int64_t i = 0; i < words; ++i) to[i] = word(to[i] + u[i]);
  }

  static void update(int16_t* h, const int16_t* z, const int16_t* n, int64_t words) {
    for (int64_t i = 0; i < words; ++i) {
      h[i] = word(h[i] + rounding_divide(int64_t{kWordOne - z[i]} * (n[i] - h[i]), 15));
    }
  }

  static void hidden_codes(const GruLayer& layer, const int16_t* h, uint8_t* codes) {
    for (int64_t unit = 0; unit < layer.step.units; ++unit) {
      const int64_t value = scaled(h[unit], layer.factors[IntegerGru::kHidden]) + layer.step.h_zero;
      codes[unit] = static_cast<uint8_t>(clamped(value, 0, 255));
    }
  }
};

}  // namespace

void reference_integer_gru(const IntegerGru& step, const Memory& memory, Part part) {
  run_gru_teams<PlainGru>(step, memory, part);
}

}  // namespace calib8::engine
