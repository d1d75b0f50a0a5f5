// The step of LSTMs in integers.
#pragma once

#include "fields.h"

namespace calib8::engine {

// An LSTM of 8-bit codes with 16-bit gates over whole sequences; docs/numerics.md has the formulas. Tensors
// are dense: x [samples, steps, inputs] and h [samples, steps, width], steps first where `time_first`.
//
// There are four places for gates: i, f, g, o; coupled gates leave the first one out, and weights have none
// of it. Constants:
//   weights                     int8 [blocks][⌈depth / 4⌉][gates][16][4] of 16 units, filled up with zeros
//   their sums and starts       int32 [blocks][gates][16]: −128·Σ of a row; what sums of raw codes begin with
//   factors                     int32 [kFactors][2]: multiplier and shift
//   peepholes, norms, biases    int16, int16 and int32 [4][words]; guards int32 [4]
// States, buffer −1 for none: the first h, stored codes [samples, width]; the first and the last c, int16
// [samples, units].
struct IntegerLstm {
  static constexpr const char* kName = "integer_lstm";
  static constexpr int64_t kGates = 4, kBlock = 16, kMostProducts = int64_t{1} << 16;
  // Places of factors: one per gate, then single ones.
  static constexpr int64_t kWeight = 0, kRecurrent = 4, kPeephole = 8, kNorm = 12;
  static constexpr int64_t kHidden = 16, kProjection = 17, kFactors = 18;
  int64_t time_first, reverse, coupled, steps, samples, inputs, units, width;
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t h_buffer, h_offset, c_buffer, c_offset, last_buffer, last_offset;
  int64_t h_zero, hidden_zero;  // of h, stored; of what is projected, raw
  int64_t weight, weight_sum, weight_start;
  int64_t recurrent, recurrent_sum, recurrent_start;
  int64_t factors;
  int64_t peephole, norm, norm_bias, norm_guard;                          // −1: none
  int64_t cell_bits, cell_clip;                                           // clips are 0 for none
  int64_t projection, projection_sum, projection_start, projection_clip;  // −1: none, width is units

  int64_t gates() const { return kGates - coupled; }
  int64_t blocks() const { return (units + kBlock - 1) / kBlock; }
  int64_t words() const { return (units + 31) / 32 * 32; }  // of 16 bits: units in whole vectors
  static int64_t quads(int64_t depth) { return (depth + 3) / 4; }

  template <class F>
  void fields(F&& f) {
    f("time_first", time_first), f("reverse", reverse), f("coupled", coupled);
    f("steps", steps), f("samples", samples), f("inputs", inputs), f("units", units), f("width", width);
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("h_buffer", h_buffer), f("h_offset", h_offset), f("c_buffer", c_buffer), f("c_offset", c_offset);
    f("last_buffer", last_buffer), f("last_offset", last_offset);
    f("h_zero", h_zero), f("hidden_zero", hidden_zero);
    f("weight", weight), f("weight_sum", weight_sum), f("weight_start", weight_start);
    f("recurrent", recurrent), f("recurrent_sum", recurrent_sum), f("recurrent_start", recurrent_start);
    f("factors", factors), f("peephole", peephole), f("norm", norm), f("norm_bias", norm_bias);
    f("norm_guard", norm_guard), f("cell_bits", cell_bits), f("cell_clip", cell_clip);
    f("projection", projection), f("projection_sum", projection_sum);
    f("projection_start", projection_start), f("projection_clip", projection_clip);
  }
};
void check_step(const IntegerLstm& step, Limits& limits);

}  // namespace calib8::engine
