// The step of GRUs in integers.
#pragma once

#include "fields.h"

namespace calib8::engine {

// A GRU of 8-bit codes with 16-bit gates and states over whole sequences; docs/numerics.md has the formulas.
// Tensors are dense: x [samples, steps, inputs] and h [samples, steps, units], steps first where
// `time_first`. The first and the last h are int16 [samples, units], buffer −1 for none.
//
// Gates are z, r and n. Constants are those of IntegerLstm: weights int8 [blocks][⌈depth / 4⌉][gates][16][4]
// with sums and starts, of all gates for x, of z and r for h, of n alone (`candidate`) for h or r·h;
// factors int32 [kFactors][2].
struct IntegerGru {
  static constexpr const char* kName = "integer_gru";
  static constexpr int64_t kGates = 3, kBlock = 16, kMostProducts = int64_t{1} << 16;
  // Places of factors: one per gate, then one of the codes of h.
  static constexpr int64_t kWeight = 0, kRecurrent = 3, kHidden = 6, kFactors = 7;
  int64_t time_first, reverse, reset_after, steps, samples, inputs, units;
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t h_buffer, h_offset, last_buffer, last_offset;
  int64_t h_zero;  // of h, stored
  int64_t weight, weight_sum, weight_start;
  int64_t recurrent, recurrent_sum, recurrent_start;
  int64_t candidate, candidate_sum, candidate_start;
  int64_t factors;

  int64_t blocks() const { return (units + kBlock - 1) / kBlock; }
  int64_t words() const { return (units + 31) / 32 * 32; }  // of 16 bits: units in whole vectors

  template <class F>
  void fields(F&& f) {
    f("time_first", time_first), f("reverse", reverse), f("reset_after", reset_after);
    f("steps", steps), f("samples", samples), f("inputs", inputs), f("units", units);
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("h_buffer", h_buffer), f("h_offset", h_offset);
    f("last_buffer", last_buffer), f("last_offset", last_offset), f("h_zero", h_zero);
    f("weight", weight), f("weight_sum", weight_sum), f("weight_start", weight_start);
    f("recurrent", recurrent), f("recurrent_sum", recurrent_sum), f("recurrent_start", recurrent_start);
    f("candidate", candidate), f("candidate_sum", candidate_sum), f("candidate_start", candidate_start);
    f("factors", factors);
  }
};
void check_step(const IntegerGru& step, Limits& limits);

}  // namespace calib8::engine
