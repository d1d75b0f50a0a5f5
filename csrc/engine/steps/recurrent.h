// The step of recurrent layers, and of what their cells compute where it stands by itself.
#pragma once

#include "fields.h"

namespace calib8::engine {

// LSTM, GRU or RNN over whole sequences; docs/numerics.md has the formulas. Tensors are dense float32:
// x [steps, samples, inputs], first h and c [directions, samples, units], and the result
// [steps + 1 (LSTM: + 2), directions, samples, units]; lengths are int32 [samples].
//
// Constants come in blocks of 16 units, all gates of a block side by side, filled up with zeros:
//   weights                       int8 [directions][blocks][⌈depth / 4⌉][gates][16][4]
//   scales, sums of rows, biases  float32 or int32 [directions][blocks][gates][16]
//   inner bias, peepholes         float32 [directions][blocks][16] and [directions][blocks][3][16]
//   functions                     int32 [directions][3][3]: kind and the bits of α and β
struct Recurrent {
  static constexpr const char* kName = "recurrent";
  enum Cell : int64_t { kLstm = 1, kGru = 2, kRnn = 3 };
  enum Function : int64_t {
    kSigmoid = 1,
    kTanh = 2,
    kRelu = 3,
    kHardSigmoid = 4,
    kSoftsign = 5,
    kAffine = 6,
    kScaledTanh = 7
  };
  static constexpr int64_t kMostProducts = int64_t{1} << 16;  // of one sum
  static constexpr int64_t kBlock = 16, kFunctions = 3;
  int64_t cell, directions, reverse;  // bit d of `reverse`: direction d begins at the last step
  int64_t steps, samples, inputs, units;
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t h_buffer, h_offset, c_buffer, c_offset, lengths_buffer, lengths_offset;  // buffer −1: none
  int64_t weight, weight_scale, weight_sum, bias;
  int64_t recurrent, recurrent_scale, recurrent_sum;
  int64_t inner_bias, peephole;  // −1: none; with an inner bias r comes behind the product
  int64_t functions;
  int64_t coupled;  // 1: an LSTM forgets 1 − i
  double clip;      // a float32 value, 0 for none

  int64_t gates() const { return cell == kLstm ? 4 : cell == kGru ? 3 : 1; }
  int64_t blocks() const { return (units + kBlock - 1) / kBlock; }
  int64_t lanes() const { return blocks() * gates() * kBlock; }  // numbers of a direction
  int64_t states() const { return cell == kLstm ? 2 : 1; }
  static int64_t quads(int64_t depth) { return (depth + 3) / 4; }

  template <class F>
  void fields(F&& f) {
    f("cell", cell), f("directions", directions), f("reverse", reverse), f("steps", steps);
    f("samples", samples), f("inputs", inputs), f("units", units);
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("h_buffer", h_buffer), f("h_offset", h_offset), f("c_buffer", c_buffer), f("c_offset", c_offset);
    f("lengths_buffer", lengths_buffer), f("lengths_offset", lengths_offset);
    f("weight", weight), f("weight_scale", weight_scale), f("weight_sum", weight_sum), f("bias", bias);
    f("recurrent", recurrent), f("recurrent_scale", recurrent_scale), f("recurrent_sum", recurrent_sum);
    f("inner_bias", inner_bias), f("peephole", peephole), f("functions", functions);
    f("coupled", coupled), f("clip", clip);
  }
  template <class F>
  static void kinds(F&& f) {
    f("LSTM", kLstm), f("GRU", kGru), f("RNN", kRnn);
  }
};
void check_step(const Recurrent& step, Limits& limits);

// One of the functions of cells of `count` float32 values that lie side by side.
struct RealFunction {
  static constexpr const char* kName = "real_function";
  int64_t count, source_buffer, source_offset, target_buffer, target_offset;
  int64_t function;    // a Recurrent::Function
  double alpha, beta;  // float32 values

  template <class F>
  void fields(F&& f) {
    f("count", count), f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("function", function);
    f("alpha", alpha), f("beta", beta);
  }
};
void check_step(const RealFunction& step, Limits& limits);

}  // namespace calib8::engine
