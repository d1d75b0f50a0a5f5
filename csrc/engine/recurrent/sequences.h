// The way of a recurrent layer through its sequences, for kernels of every set: which samples are at which
// step, which of them are lost, what is coded when, where states begin and where they go.
//
// A team is up to kCellSamples samples of one direction. An Ops has what computes:
//   uint32_t largest_of(const float* values, int64_t count)
//       the bits of the largest magnitude of a row that is filled up with zeros to kMostLanes
//   float code_row(const float* values, int64_t count, uint32_t largest, uint8_t* codes)
//       codes plus 128 of such a row; its scale, NaN for a lost row
//   void multiply_inputs(const Direction&, const CellScratch&, int64_t rows)
//       the sums u of so many coded rows
//   void advance(const Direction&, const CellScratch&, Walkers&)
//       the states of the walkers, and the largest magnitudes among them
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "../scratch.h"
#include "cell_functions.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The constants of a direction.
struct Direction {
  const Recurrent& step;
  int64_t gates, blocks, input_quads, unit_quads;
  const int8_t *weight, *recurrent;
  const float *weight_scale, *recurrent_scale, *bias;
  const int32_t *weight_sum, *recurrent_sum;  // −128·Σ of the codes of a row
  const float *inner_bias, *peephole;         // null: none
  CellFunctions functions;

  Direction(const Recurrent& layer, const Memory& memory, int64_t d)
      : step(layer),
        gates(layer.gates()),
        blocks(layer.blocks()),
        input_quads(Recurrent::quads(layer.inputs)),
        unit_quads(Recurrent::quads(layer.units)),
        weight(memory.constant<int8_t>(layer.weight) + d * layer.lanes() * 4 * input_quads),
        recurrent(memory.constant<int8_t>(layer.recurrent) + d * layer.lanes() * 4 * unit_quads),
        weight_scale(memory.constant<float>(layer.weight_scale) + d * layer.lanes()),
        recurrent_scale(memory.constant<float>(layer.recurrent_scale) + d * layer.lanes()),
        bias(memory.constant<float>(layer.bias) + d * layer.lanes()),
        weight_sum(memory.constant<int32_t>(layer.weight_sum) + d * layer.lanes()),
        recurrent_sum(memory.constant<int32_t>(layer.recurrent_sum) + d * layer.lanes()),
        inner_bias(of_block(memory, layer.inner_bias, d * blocks)),
        peephole(of_block(memory, layer.peephole, 3 * d * blocks)),
        functions(memory.constant<int32_t>(layer.functions) + 9 * d) {}

 private:
  static const float* of_block(const Memory& memory, int64_t offset, int64_t block) {
    return offset < 0 ? nullptr : memory.constant<float>(offset) + block * Recurrent::kBlock;
  }
};

// The samples of a team that take a step.
struct Walkers {
  int count = 0;
  int64_t sample[kCellSamples];                             // within the team
  int64_t row[kCellSamples];                                // of their sums u
  float scale[kCellSamples];                                // of the codes of h
  uint32_t largest[kCellSamples], largest_c[kCellSamples];  // bits of the largest magnitudes of h and c
};

template <class Ops>
class Team {
 public:
  Team(const Recurrent& step, const Memory& memory, int64_t d, int64_t first)
      : step_(step),
        memory_(memory),
        scratch_(step, memory.scratch),
        direction_(step, memory, d),
        d_(d),
        first_(first),
        count_(step.samples - first < kCellSamples ? step.samples - first : kCellSamples),
        reverse_((step.reverse >> d & 1) != 0) {}

  void run() {
    begin();
    const int64_t steps_at_once = kCellRows / count_;
    for (int64_t number = 0; number < longest_; number += steps_at_once) {
      const int64_t end = number + steps_at_once < longest_ ? number + steps_at_once : longest_;
      code_inputs(number, end);
      Ops::multiply_inputs(direction_, scratch_, (end - number) * count_);
      for (int64_t at = number; at < end; ++at) take_step(at, (at - number) * count_);
    }
    finish();
  }

 private:
  float* state(float* states, int64_t sample) const { return states + sample * scratch_.units(); }
  float* target(int64_t place, int64_t sample) const {
    const int64_t row = (place * step_.directions + d_) * step_.samples + first_ + sample;
    return memory_.data<float>(step_.target_buffer, step_.target_offset) + row * step_.units;
  }
  void fill(float* to, float value, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) to[i] = value;
  }
  void copy(float* to, const float* from, int64_t count) const {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  }
  int64_t place_of(int64_t sample, int64_t number) const {
    return reverse_ ? lengths_[sample] - 1 - number : number;
  }

  // Lengths, first states and their codes; what lies beyond a sequence is 0.
  void begin() {
    const int32_t* lengths = step_.lengths_buffer < 0
                                 ? nullptr
                                 : memory_.data<int32_t>(step_.lengths_buffer, step_.lengths_offset);
    for (int64_t sample = 0; sample < count_; ++sample) {
      const int64_t length = lengths == nullptr ? step_.steps : lengths[first_ + sample];
      valid_[sample] = length >= 0 && length <= step_.steps;
      lengths_[sample] = valid_[sample] ? length : 0;
      longest_ = lengths_[sample] > longest_ ? lengths_[sample] : longest_;
      for (int64_t place = lengths_[sample]; place < step_.steps; ++place) {
        fill(target(place, sample), valid_[sample] ? 0.0F : number_of(kNotANumber), step_.units);
      }
      const uint32_t h = begin_state(scratch_.h, step_.h_buffer, step_.h_offset, sample);
      const uint32_t c = begin_state(scratch_.c, step_.c_buffer, step_.c_offset, sample);
      lost_[sample] = h >= kInfinity || c >= kInfinity;
      code_state(sample, h);
    }
  }

  // Returns the bits of the largest magnitude.
  uint32_t begin_state(float* states, int64_t buffer, int64_t offset, int64_t sample) {
    float* to = state(states, sample);
    fill(to, 0.0F, scratch_.units());
    if (buffer < 0) return 0;
    const int64_t row = d_ * step_.samples + first_ + sample;
    copy(to, memory_.data<float>(buffer, offset) + row * step_.units, step_.units);
    uint32_t largest = 0;
    for (int64_t i = 0; i < step_.units; ++i) {
      const uint32_t magnitude = bits_of(to[i]) & kMagnitude;
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }

  void code_state(int64_t sample, uint32_t largest) {
    uint8_t* codes = scratch_.states + sample * scratch_.state_bytes;
    scales_[sample] = Ops::code_row(state(scratch_.h, sample), step_.units, largest, codes);
  }

  void code_inputs(int64_t number, int64_t end) {
    const float* x = memory_.data<float>(step_.source_buffer, step_.source_offset);
    int64_t row = 0;
    for (; number < end; ++number) {
      for (int64_t sample = 0; sample < count_; ++sample, ++row) {
        scratch_.scales[row] = 0;
        if (number >= lengths_[sample]) continue;
        const int64_t from = place_of(sample, number) * step_.samples + first_ + sample;
        copy(scratch_.row, x + from * step_.inputs, step_.inputs);
        fill(scratch_.row + step_.inputs, 0.0F, kMostLanes);
        uint8_t* codes = scratch_.inputs + row * scratch_.row_bytes;
        const uint32_t largest = Ops::largest_of(scratch_.row, step_.inputs);
        scratch_.scales[row] = Ops::code_row(scratch_.row, step_.inputs, largest, codes);
      }
    }
  }

  void take_step(int64_t number, int64_t first_row) {
    Walkers walkers;
    for (int64_t sample = 0; sample < count_; ++sample) {
      if (number >= lengths_[sample]) continue;
      if (std::isnan(scratch_.scales[first_row + sample])) lost_[sample] = true;
      if (lost_[sample]) continue;
      const int i = walkers.count++;
      walkers.sample[i] = sample;
      walkers.row[i] = first_row + sample;
      walkers.scale[i] = scales_[sample];
      walkers.largest[i] = walkers.largest_c[i] = 0;
    }
    if (walkers.count > 0) Ops::advance(direction_, scratch_, walkers);
    for (int i = 0; i < walkers.count; ++i) {
      const int64_t sample = walkers.sample[i];
      lost_[sample] = walkers.largest[i] >= kInfinity || walkers.largest_c[i] >= kInfinity;
      if (!lost_[sample] && number + 1 < lengths_[sample]) code_state(sample, walkers.largest[i]);
    }
    for (int64_t sample = 0; sample < count_; ++sample) {
      if (number < lengths_[sample]) write(target(place_of(sample, number), sample), scratch_.h, sample);
    }
  }

  void write(float* to, float* states, int64_t sample) const {
    if (lost_[sample]) return fill(to, number_of(kNotANumber), step_.units);
    copy(to, state(states, sample), step_.units);
  }

  void finish() {
    for (int64_t sample = 0; sample < count_; ++sample) {
      for (int64_t which = 0; which < step_.states(); ++which) {
        float* to = target(step_.steps + which, sample);
        if (lengths_[sample] > 0) {
          write(to, which == 0 ? scratch_.h : scratch_.c, sample);
        } else {
          fill(to, valid_[sample] ? 0.0F : number_of(kNotANumber), step_.units);
        }
      }
    }
  }

  const Recurrent& step_;
  const Memory& memory_;
  const CellScratch scratch_;
  const Direction direction_;
  const int64_t d_, first_, count_;
  const bool reverse_;
  int64_t lengths_[kCellSamples], longest_ = 0;
  bool valid_[kCellSamples], lost_[kCellSamples];
  float scales_[kCellSamples];
};

// The share of the teams that falls to a part.
template <class Ops>
void run_teams(const Recurrent& step, const Memory& memory, Part part) {
  const int64_t teams = (step.samples + kCellSamples - 1) / kCellSamples;
  const Range mine = share(part, step.directions * teams);
  for (int64_t i = mine.begin; i < mine.end; ++i) {
    Team<Ops>(step, memory, i / teams, i % teams * kCellSamples).run();
  }
}

}  // namespace
}  // namespace calib8::engine
