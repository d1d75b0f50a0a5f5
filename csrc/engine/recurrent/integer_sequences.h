// The way of an LSTM of integers through its sequences, for kernels of every set.
//
// A team is up to kCellSamples samples. An Ops has what computes:
//   void multiply_inputs(const IntegerLayer&, const IntegerCellScratch&, int64_t rows)
//       the sums u of so many rows of codes
//   void multiply_states(const IntegerLayer&, const IntegerCellScratch&, int64_t first_row, int64_t count)
//       what the gates of so many samples read: u of the rows from `first_row` on, and the sums of their h
//   void add_seen(int16_t* gate, const int16_t* c, const int16_t* weights, CellFactor, int64_t words)
//   void sigmoid(int16_t* gate, int64_t words), void tangent(int16_t* to, const int16_t*, int bits, int64_t
//   words) void update(const IntegerLayer&, const int16_t* i, f, g, int16_t* c): i is null where gates are
//   coupled void hidden_codes(const IntegerLayer&, const int16_t* o, const int16_t* tangent, uint8_t* codes)
//   void project(const IntegerLayer&, const IntegerCellScratch&, int64_t count)
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstring>

#include "../scratch.h"
#include "integer_functions.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Weights in blocks of 16 units, with what their sums begin with.
struct PackedRows {
  const int8_t* weights;
  const int32_t *sum, *start;  // −128·Σ of the codes of a row; what sums of raw codes begin with
  int64_t quads, blocks, gates;

  PackedRows(const Memory& memory, const int64_t (&constants)[3], int64_t depth, int64_t units, int64_t count)
      : weights(memory.constant<int8_t>(constants[0])),
        sum(memory.constant<int32_t>(constants[1])),
        start(memory.constant<int32_t>(constants[2])),
        quads(IntegerLstm::quads(depth)),
        blocks((units + IntegerLstm::kBlock - 1) / IntegerLstm::kBlock),
        gates(count) {}
};

// The constants of a layer.
struct IntegerLayer {
  const IntegerLstm& step;
  const PackedRows of_x, of_h, of_hidden;
  const CellFactor* factors;
  const int16_t *peephole, *norm;  // null: none
  const int32_t *norm_bias, *norm_guard;

  IntegerLayer(const IntegerLstm& layer, const Memory& memory)
      : step(layer),
        of_x(memory, {layer.weight, layer.weight_sum, layer.weight_start}, layer.inputs, layer.units,
             layer.gates()),
        of_h(memory, {layer.recurrent, layer.recurrent_sum, layer.recurrent_start}, layer.width, layer.units,
             layer.gates()),
        of_hidden(memory, {layer.projection, layer.projection_sum, layer.projection_start}, layer.units,
                  layer.width, 1),
        factors(memory.constant<CellFactor>(layer.factors)),
        peephole(memory.constant<int16_t>(layer.peephole)),
        norm(memory.constant<int16_t>(layer.norm)),
        norm_bias(memory.constant<int32_t>(layer.norm_bias)),
        norm_guard(memory.constant<int32_t>(layer.norm_guard)) {}

  int64_t first_gate() const { return step.coupled; }
};

// Rounded products of gates, bounded so that a sum with 16 bits stays within 32.
constexpr int32_t kMostGate = 1 << 20;

// A code of h, stored.
[[maybe_unused]] inline uint8_t projected_code(const IntegerLayer& layer, int64_t sum) {
  const CellFactor factor = layer.factors[IntegerLstm::kProjection];
  const int64_t raw = multiply_double(sum, factor.multiplier, factor.shift) + layer.step.h_zero - 128;
  const int64_t clip = layer.step.projection_clip, code = clamped(raw, -128, 127);
  return static_cast<uint8_t>((clip > 0 ? clamped(code, -clip, clip) : code) + 128);
}

// What is added to o·Tanh(c), for stored codes.
[[maybe_unused]] inline int64_t stored_hidden_zero(const IntegerLstm& step) {
  return (step.projection < 0 ? step.hidden_zero : -step.hidden_zero) + 128;
}

template <class Ops>
class IntegerTeam {
 public:
  IntegerTeam(const IntegerLstm& step, const Memory& memory, int64_t first)
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
    if (step_.last_buffer >= 0) leave();
  }

 private:
  void begin() {
    const auto zero = static_cast<int>(step_.h_zero);
    std::memset(scratch_.states, zero, static_cast<size_t>(kCellSamples * scratch_.state_bytes));
    const auto words = static_cast<size_t>(kCellSamples * scratch_.words) * sizeof(int16_t);
    std::memset(scratch_.c, 0, words);
    std::memset(scratch_.gates, 0, IntegerLstm::kGates * words);
    if (step_.h_buffer >= 0) {
      const auto* h = memory_.data<uint8_t>(step_.h_buffer, step_.h_offset) + first_ * step_.width;
      copy_rows(scratch_.states, scratch_.state_bytes, h, step_.width);
    }
    if (step_.c_buffer >= 0) {
      const auto* c = memory_.data<int16_t>(step_.c_buffer, step_.c_offset) + first_ * step_.units;
      copy_rows(scratch_.c, scratch_.words, c, step_.units);
    }
  }

  template <class T>
  void copy_rows(T* to, int64_t stride, const T* from, int64_t count) const {
    for (int64_t sample = 0; sample < count_; ++sample) {
      std::memcpy(to + sample * stride, from + sample * count, static_cast<size_t>(count) * sizeof(T));
    }
  }

  void leave() {
    auto* last = memory_.data<int16_t>(step_.last_buffer, step_.last_offset) + first_ * step_.units;
    for (int64_t sample = 0; sample < count_; ++sample) {
      std::memcpy(last + sample * step_.units, scratch_.c + sample * scratch_.words,
                  static_cast<size_t>(step_.units) * sizeof(int16_t));
    }
  }

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
    for (int64_t sample = 0; sample < count_; ++sample) advance(sample);
    if (step_.projection >= 0) Ops::project(layer_, scratch_, count_);
    auto* h = memory_.data<uint8_t>(step_.target_buffer, step_.target_offset);
    for (int64_t sample = 0; sample < count_; ++sample) {
      const uint8_t* from = scratch_.states + sample * scratch_.state_bytes;
      std::memcpy(h + place(number, sample) * step_.width, from, static_cast<size_t>(step_.width));
    }
  }

  void advance(int64_t sample) {
    int16_t* c = scratch_.c + sample * scratch_.words;
    const bool coupled = step_.coupled != 0;
    if (!coupled) open(sample, 0, c);
    open(sample, 1, c);
    int16_t* g = read(sample, 2);
    Ops::tangent(g, g, kGateBits, scratch_.words);
    Ops::update(layer_, coupled ? nullptr : scratch_.gate_of(sample, 0), scratch_.gate_of(sample, 1), g, c);
    open(sample, 3, c);
    Ops::tangent(scratch_.tangent, c, static_cast<int>(step_.cell_bits), scratch_.words);
    uint8_t* codes = step_.projection < 0 ? scratch_.states + sample * scratch_.state_bytes
                                          : scratch_.hidden + sample * scratch_.hidden_bytes;
    Ops::hidden_codes(layer_, scratch_.gate_of(sample, 3), scratch_.tangent, codes);
  }

  // i, f or o.
  void open(int64_t sample, int64_t gate, const int16_t* c) {
    if (layer_.peephole != nullptr) {
      const int16_t* weights = layer_.peephole + gate * scratch_.words;
      const CellFactor factor = layer_.factors[IntegerLstm::kPeephole + gate];
      Ops::add_seen(scratch_.gate_of(sample, gate), c, weights, factor, scratch_.words);
    }
    Ops::sigmoid(read(sample, gate), scratch_.words);
  }

  // What a gate reads, behind its norm.
  int16_t* read(int64_t sample, int64_t gate) {
    int16_t* values = scratch_.gate_of(sample, gate);
    if (layer_.norm != nullptr) {
      normalize(values, step_.units, layer_.norm + gate * scratch_.words,
                layer_.norm_bias + gate * scratch_.words, layer_.norm_guard[gate],
                layer_.factors[IntegerLstm::kNorm + gate]);
    }
    return values;
  }

  const IntegerLstm& step_;
  const Memory& memory_;
  const IntegerCellScratch scratch_;
  const IntegerLayer layer_;
  const int64_t first_, count_;
};

// The share of the teams that falls to a part.
template <class Ops>
void run_integer_teams(const IntegerLstm& step, const Memory& memory, Part part) {
  const Range mine = share(part, (step.samples + kCellSamples - 1) / kCellSamples);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    IntegerTeam<Ops>(step, memory, i * kCellSamples).run();
  }
}

}  // namespace
}  // namespace calib8::engine
