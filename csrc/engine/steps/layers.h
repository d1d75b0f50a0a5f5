// Steps that multiply: convolutions, fully connected layers, products of activations.
#pragma once

#include "fields.h"

namespace calib8::engine {

// Convolution (fully connected layers too) as a product of matrices without a matrix of windows:
//
//   acc[p, o] = bias[o] + Σ_t Σ_k stored[input(p) + tap[t] + k] · w[o, t, k]
//
// input(p) is the input pixel at (row · row_step, column · column_step) of output pixel p. Borders must be in
// storage (halo). `depth` bytes are read per tap, a multiple of 4: reading beyond the channels of a pixel is
// fine, weights there are 0, and every buffer has 64 readable bytes behind it. Packed weights of a group:
// panels of `panel_widths[i]` · 16 channels one after the other, each [taps][depth / 4][width · 16][4];
// channels beyond `outputs` are 0. bias holds −z_x · Σw.
struct Conv {
  static constexpr const char* kName = "conv";
  View input, output;             // output.channels = outputs · groups
  int64_t row_step, column_step;  // strides
  int64_t taps, tap_offsets;      // constant int64 [taps], elements, may be negative
  int64_t depth;
  int64_t groups, group_channels;  // input channels from one group to the next
  int64_t outputs;                 // output channels of one group
  int64_t panels, panel_widths;    // constant int32 [panels], 1 … 4; the same for each group
  int64_t padded_outputs;          // Σ panel_widths · 16
  int64_t weights, weight_bytes;   // constant; bytes of one group
  int64_t bias;                    // constant int32 [groups · padded_outputs]
  int64_t weight_sums;             // constant int32 [groups · padded_outputs]: Σ w[o]
  Rescale rescale;                 // arrays [groups · padded_outputs]
  SumRule sum;                     // a residual added to the codes; they are the left side if residual_right
  int64_t residual_right;          // 1: the residual is rhs; 0: it is lhs
  View residual;
  int64_t table;          // constant uint8 [256] for stored codes, last of all
  Activation activation;  // between the rescale and all else; without a sum

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("row_step", row_step), f("column_step", column_step);
    f("taps", taps), f("tap_offsets", tap_offsets), f("depth", depth), f("groups", groups);
    f("group_channels", group_channels), f("outputs", outputs), f("panels", panels);
    f("panel_widths", panel_widths), f("padded_outputs", padded_outputs), f("weights", weights);
    f("weight_bytes", weight_bytes), f("bias", bias), f("weight_sums", weight_sums), f("rescale", rescale);
    f("sum", sum), f("residual_right", residual_right), f("residual", residual), f("table", table);
    f("activation", activation);
  }
};
void check_step(const Conv& step, Limits& limits);

// One filter per output channel o, which reads input channel o / multiplier; borders are in storage:
//
//   acc[p, o] = bias[o] + Σ_t stored[input(p) + tap[t] + o / multiplier] · w[t, o]
//
// Taps come layer by layer, row by row, and are filled up to a multiple of four with weights 0 (their places
// are those of the first tap). Those of a kernel of one column may lie anywhere: frames of a volume. Arrays
// of channels are filled up to a multiple of 64.
struct Depthwise {
  static constexpr const char* kName = "depthwise";
  static constexpr int64_t kAnyShift = 2;
  View input, output;
  int64_t kernel_rows, kernel_columns, row_step, column_step, row_dilation, column_dilation;
  int64_t taps, tap_offsets;  // constant int64 [taps], elements, may be negative
  int64_t multiplier;         // output channels per input channel
  int64_t repeats;            // constant uint8 [padded_outputs]: o / multiplier − 16·⌊o/16⌋ / multiplier
  int64_t padded_outputs;
  int64_t weights;  // constant int8 [taps][padded_outputs]
  int64_t layers;   // w = Σ over layers: more than 1 where w − z_w does not fit int8
  int64_t bias;     // constant int32 [padded_outputs], holds −z_x · Σw
  Rescale rescale;  // arrays [padded_outputs]
  int64_t narrow;   // |acc| and |acc · factor| stay below 2^30; 1: fixed shifts are −2 or less, 2: any
  int64_t table;    // constant uint8 [256] for stored codes, −1 for none
  Activation activation;

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("kernel_rows", kernel_rows);
    f("kernel_columns", kernel_columns), f("row_step", row_step), f("column_step", column_step);
    f("row_dilation", row_dilation), f("column_dilation", column_dilation), f("taps", taps);
    f("tap_offsets", tap_offsets), f("multiplier", multiplier), f("repeats", repeats);
    f("padded_outputs", padded_outputs), f("weights", weights), f("layers", layers), f("bias", bias);
    f("rescale", rescale), f("narrow", narrow), f("table", table);
    f("activation", activation);
  }
};
void check_step(const Depthwise& step, Limits& limits);

// … of items of other sizes (wide.h).
void check_layer(const Conv& step, Limits& limits, int64_t input_size = 1, int64_t output_size = 1);
void check_layer(const Depthwise& step, Limits& limits, int64_t input_size = 1, int64_t output_size = 1);

// Σ_k (a[b, m, k] − z_a)(b[b, k, n] − z_b), stored codes and zero points. All matrices are dense; those of
// the output follow each other, those of the operands begin where two tables say.
struct MatMul {
  static constexpr const char* kName = "mat_mul";
  int64_t lhs_buffer, lhs_offset, rhs_buffer, rhs_offset, target_buffer, target_offset;  // offsets in bytes
  int64_t batches, lhs_starts, rhs_starts;  // constants int64 [batches], elements
  int64_t rows, depth, columns;             // M, K, N
  int64_t lhs_zero, rhs_zero;
  Rescale rescale;  // one channel

  template <class F>
  void fields(F&& f) {
    f("lhs_buffer", lhs_buffer), f("lhs_offset", lhs_offset), f("rhs_buffer", rhs_buffer);
    f("rhs_offset", rhs_offset), f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("batches", batches), f("lhs_starts", lhs_starts), f("rhs_starts", rhs_starts), f("rows", rows);
    f("depth", depth), f("columns", columns), f("lhs_zero", lhs_zero), f("rhs_zero", rhs_zero);
    f("rescale", rescale);
  }
};
void check_step(const MatMul& step, Limits& limits);

}  // namespace calib8::engine
