// The way of a GRU of integers through its sequences, for kernels of every set.
//
// A team is up to kCellSamples samples. An Ops has what computes:
//   void multiply_inputs(const GruLayer&, const IntegerGruScratch&, int64_t rows)
//       the sums u of so many rows of codes
//   void multiply_states(const GruLayer&, const IntegerGruScratch&, int64_t first_row, int64_t count)
//       what z and r of so many samples read: u of the rows from `first_row` on, and the sums of their h
//   void multiply_candidates(const GruLayer&, const IntegerGruScratch&, const uint8_t* codes, int64_t count)
//       the sums of n of so many rows of codes, into the places of n
//   void sigmoid(int16_t* gate, int64_t words), void tangent(int16_t* to, const int16_t* from, int64_t words)
//   void reset(int16_t* to, const int16_t* r, const int16_t* from, int64_t words)      D(r · from, 15)
//   void add(int16_t* to, const int16_t* u, int64_t words)                            sat(to + u)
//   void update(int16_t* h, const int16_t* z, const int16_t* n, int64_t words)
//   void hidden_codes(const GruLayer&, const int16_t* h, uint8_t* codes)
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstring>

#include "integer_sequences.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The constants of a layer.
struct GruLayer {
  const IntegerGru& step;
  const PackedRows of_x, of_h, of_candidate;
  const CellFactor* factors;

  GruLayer(const IntegerGru& layer, const Memory& memory)
      : step(layer),
        of_x(memory, {layer.weight, layer.weight_sum, layer.weight_start}, layer.inputs, layer.units, 3),
        of_h(memory, {layer.recurrent, layer.recurrent_sum, layer.recurrent_start}, layer.units, layer.units,
             2),
        of_candidate(memory, {layer.candidate, layer.candidate_sum, layer.candidate_start}, layer.units,
                     layer.units, 1),
        factors(memory.constant<CellFactor>(layer.factors)) {}
};

constexpr int64_t kZ = 0, kR = 1, kN = 2;

template <class Ops>
class GruTeam {
 public:
  GruTeam(const IntegerGru& step, const Memory& memory, int64_t first)
      : step_(step),
        memory_(memory),
        scratch_(step, memory.scratch),
        layer_(step, memory),
        first_(first),
        count_(step.samples - first < kCellSamples ? step.samples - first : kCellSamples) {}

  void run() {
    begin();
    const int64_t steps_at_once = kCellRows / count_;
    for (int64_t number = 0; number < step_.steps; number += steps_at_once) {
      const int64_t end = number + steps_at_once < step_.steps ? number + steps_at_once : step_.steps;
      copy_inputs(number, end);
      Ops::multiply_inputs(layer_, scratch_, (end - number) * count_);
      for (int64_t at = number; at < end; ++at) take_step(at, (at - number) * count_);
    }
    if (step_.last_buffer < 0) return;
    auto* last = memory_.data<int16_t>(step_.last_buffer, step_.last_offset) + first_ * step_.units;
    for (int64_t sample = 0; sample < count_; ++sample) {
      std::memcpy(last + sample * step_.units, h_of(sample), state_size());
    }
  }

 private:
  void begin() {
    const auto words = static_cast<size_t>(kCellSamples * scratch_.words) * sizeof(int16_t);
    std::memset(scratch_.h, 0, words);
    std::memset(scratch_.gates, 0, IntegerGru::kGates * words);
    std::memset(scratch_.states, 0, static_cast<size_t>(kCellSamples * scratch_.state_bytes));
    std::memset(scratch_.reset, 0, static_cast<size_t>(kCellSamples * scratch_.state_bytes));
    for (int64_t sample = 0; sample < count_; ++sample) {
      if (step_.h_buffer >= 0) {
        const auto* first = memory_.data<int16_t>(step_.h_buffer, step_.h_offset);
        std::memcpy(h_of(sample), first + (first_ + sample) * step_.units, state_size());
      }
      Ops::hidden_codes(layer_, h_of(sample), codes_of(scratch_.states, sample));
    }
  }

  size_t state_size() const { return static_cast<size_t>(step_.units) * sizeof(int16_t); }
  int16_t* h_of(int64_t sample) const { return scratch_.h + sample * scratch_.words; }
  uint8_t* codes_of(uint8_t* rows, int64_t sample) const { return rows + sample * scratch_.state_bytes; }

  int64_t place(int64_t number, int64_t sample) const {
    const int64_t at = first_ + sample, time = step_.reverse != 0 ? step_.steps - 1 - number : number;
    return step_.time_first != 0 ? time * step_.samples + at : at * step_.steps + time;
  }

  void copy_inputs(int64_t number, int64_t end) {
    const auto* x = memory_.data<uint8_t>(step_.source_buffer, step_.source_offset);
    uint8_t* to = scratch_.inputs;
    for (; number < end; ++number) {
      for (int64_t sample = 0; sample < count_; ++sample, to += scratch_.row_bytes) {
        const uint8_t* from = x + place(number, sample) * step_.inputs;
        std::memcpy(to, from, static_cast<size_t>(step_.inputs));
      }
    }
  }

  void take_step(int64_t number, int64_t first_row) {
    Ops::multiply_states(layer_, scratch_, first_row, count_);
    for (int64_t sample = 0; sample < count_; ++sample) open(sample);
    const bool after = step_.reset_after != 0;
    Ops::multiply_candidates(layer_, scratch_, after ? scratch_.states : scratch_.reset, count_);
    auto* h = memory_.data<uint8_t>(step_.target_buffer, step_.target_offset);
    for (int64_t sample = 0; sample < count_; ++sample) {
      close(sample, first_row + sample, after);
      std::memcpy(h + place(number, sample) * step_.units, codes_of(scratch_.states, sample),
                  static_cast<size_t>(step_.units));
    }
  }

  // z and r; the codes of r·h where they are multiplied.
  void open(int64_t sample) {
    int16_t *z = scratch_.gate_of(sample, kZ), *r = scratch_.gate_of(sample, kR);
    Ops::sigmoid(z, scratch_.words);
    Ops::sigmoid(r, scratch_.words);
    if (step_.reset_after != 0) return;
    int16_t* part = scratch_.gate_of(sample, kN);
    Ops::reset(part, r, h_of(sample), scratch_.words);
    Ops::hidden_codes(layer_, part, codes_of(scratch_.reset, sample));
  }

  // n and the new h.
  void close(int64_t sample, int64_t row, bool after) {
    int16_t* n = scratch_.gate_of(sample, kN);
    if (after) Ops::reset(n, scratch_.gate_of(sample, kR), n, scratch_.words);
    Ops::add(n, scratch_.sum_of(row, kN), scratch_.words);
    Ops::tangent(n, n, scratch_.words);
    Ops::update(h_of(sample), scratch_.gate_of(sample, kZ), n, scratch_.words);
    Ops::hidden_codes(layer_, h_of(sample), codes_of(scratch_.states, sample));
  }

  const IntegerGru& step_;
  const Memory& memory_;
  const IntegerGruScratch scratch_;
  const GruLayer layer_;
  const int64_t first_, count_;
};

// The share of the teams that falls to a part.
template <class Ops>
void run_gru_teams(const IntegerGru& step, const Memory& memory, Part part) {
  const Range mine = share(part, (step.samples + kCellSamples - 1) / kCellSamples);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    GruTeam<Ops>(step, memory, i * kCellSamples).run();
  }
}

}  // namespace
}  // namespace calib8::engine
