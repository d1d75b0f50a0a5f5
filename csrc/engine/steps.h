// What an engine can do: one plain struct per kind of step, with its fields in the order in which plans store
// them.
//
// All codes are stored as uint8: an int8 code is stored as code + 128 ("stored" below, the other one is
// "raw"). Whoever makes a plan shifts zero points and clamps accordingly. `constant` fields are byte offsets
// into the constants of the plan, −1 for none; arrays per output channel are as long as the panels are wide.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>

#include "view.h"

namespace calib8::engine {

constexpr int kAxes = 6;
using Axes = std::array<int64_t, kAxes>;

// How sums become codes. `code = clamp(round(acc · factor[c]) + zero_point, low, high)`.
struct Rescale {
  enum Kind : int64_t { kNone = 0, kFloat = 1, kDouble = 2, kSingle = 3, kAway = 4 };
  int64_t kind;        // kNone: the sums themselves are stored, int32
  int64_t factor;      // constant: float32 per channel (kFloat) or int32 multipliers
  int64_t shift;       // constant: int32 per channel, positive = left (kDouble, kSingle, kAway)
  int64_t zero_point;  // stored domain, as low and high
  int64_t low, high;

  template <class F>
  void fields(F&& f) {
    f("kind", kind), f("factor", factor), f("shift", shift);
    f("zero_point", zero_point), f("low", low), f("high", high);
  }
};

// How two codes are added (or subtracted).  A = stored − lhs_shift and B = stored − rhs_shift are raw codes.
//   kFloatSum      rint(fma(A, lhs, fma(B, rhs, fixed)))                                        raw result
//   kDequantized   rint(fl(fl(lhs·(A−z_a)) ± fl(rhs·(B−z_b))) / output) + z_y
//   kScaled        M(M((A−z_a) << left_shift, lhs) ± M((B−z_b) << left_shift, rhs), output) + z_y
//   kAligned       (((A−z_a)·lhs ± (B−z_b)·rhs + 2^(right_shift−1)) >> right_shift) + z_y
// then + output_shift, then the clamp to low … high (stored domain). Zero points are raw.
struct SumRule {
  enum Kind : int64_t { kNone = 0, kFloatSum = 1, kDequantized = 2, kScaled = 3, kAligned = 4 };
  int64_t kind;
  int64_t negative;                                           // 1: the right side is subtracted
  double lhs, rhs, output, fixed;                             // float32 values
  int64_t lhs_multiplier, rhs_multiplier, output_multiplier;  // kScaled; kAligned: lhs, rhs
  int64_t lhs_exponent, rhs_exponent, output_exponent;        // kScaled: shifts, positive = left
  int64_t left_shift, right_shift;
  int64_t lhs_zero, rhs_zero, output_zero;
  int64_t lhs_shift, rhs_shift, output_shift;  // 0 or 128; kFloatSum: 0 … 255
  int64_t low, high;

  template <class F>
  void fields(F&& f) {
    f("kind", kind), f("negative", negative);
    f("lhs", lhs), f("rhs", rhs), f("output", output), f("fixed", fixed);
    f("lhs_multiplier", lhs_multiplier), f("rhs_multiplier", rhs_multiplier);
    f("output_multiplier", output_multiplier), f("lhs_exponent", lhs_exponent);
    f("rhs_exponent", rhs_exponent), f("output_exponent", output_exponent);
    f("left_shift", left_shift), f("right_shift", right_shift);
    f("lhs_zero", lhs_zero), f("rhs_zero", rhs_zero), f("output_zero", output_zero);
    f("lhs_shift", lhs_shift), f("rhs_shift", rhs_shift), f("output_shift", output_shift);
    f("low", low), f("high", high);
  }
};

// Writes one code around the interior of a tensor whose storage has a border.
struct FillHalo {
  static constexpr const char* kName = "fill_halo";
  View view;  // the interior
  int64_t top, left, bottom, right, value;

  template <class F>
  void fields(F&& f) {
    f("view", view), f("top", top), f("left", left), f("bottom", bottom), f("right", right),
        f("value", value);
  }
};

// Moves runs of bytes: target[i0, …, i5] = source[i0, …, i5]. Axes are ordered by the target, innermost last,
// and as few as possible: bytes that lie side by side in both are one run.
struct Copy {
  static constexpr const char* kName = "copy";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t run;                                 // bytes per index, side by side in source and target
  Axes sizes, source_strides, target_strides;  // strides in bytes, any sign, 0 repeats the source
  Axes source_tables;    // constants int64 [size]: bytes per index in place of index · stride; −1: none
  int64_t exclusive_or;  // of every byte: 128 between int8 outside and stored codes, else 0

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("run", run), f("sizes", sizes);
    f("source_strides", source_strides), f("target_strides", target_strides);
    f("source_tables", source_tables), f("exclusive_or", exclusive_or);
  }
};

// float32 → codes: clamp(round(x / scale) + zero_point); NaN gives the lowest code. Axes as those of Copy.
struct Quantize {
  static constexpr const char* kName = "quantize";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  Axes sizes, source_strides, target_strides;  // strides in bytes
  double scale;                                // float32 value
  int64_t zero_point, low, high;               // raw, of the type
  int64_t shift;                               // 0 or 128: stored = raw + shift
  int64_t away;                                // ties: 0 to even, 1 away from zero

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("sizes", sizes);
    f("source_strides", source_strides), f("target_strides", target_strides), f("scale", scale);
    f("zero_point", zero_point), f("low", low), f("high", high), f("shift", shift), f("away", away);
  }
};

// Stored codes, or sums, → float32: fl(scale[c] · float32(code − zero_point)). Axes as those of Copy.
struct Dequantize {
  static constexpr const char* kName = "dequantize";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t source_size;                                        // bytes per element: 1 codes, 4 sums
  Axes sizes, source_strides, target_strides, scale_strides;  // strides in bytes; codes have one scale
  int64_t scales;                                             // constant float32
  int64_t zero_point;                                         // stored domain

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("source_size", source_size);
    f("sizes", sizes), f("source_strides", source_strides), f("target_strides", target_strides);
    f("scale_strides", scale_strides), f("scales", scales), f("zero_point", zero_point);
  }
};

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
  int64_t table;  // constant uint8 [256] for stored codes, last of all

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("row_step", row_step), f("column_step", column_step);
    f("taps", taps), f("tap_offsets", tap_offsets), f("depth", depth), f("groups", groups);
    f("group_channels", group_channels), f("outputs", outputs), f("panels", panels);
    f("panel_widths", panel_widths), f("padded_outputs", padded_outputs), f("weights", weights);
    f("weight_bytes", weight_bytes), f("bias", bias), f("weight_sums", weight_sums), f("rescale", rescale);
    f("sum", sum), f("residual_right", residual_right), f("residual", residual), f("table", table);
  }
};

// One filter per output channel o, which reads input channel o / multiplier; borders are in storage:
//
//   acc[p, o] = bias[o] + Σ_t stored[input(p) + tap[t] + o / multiplier] · w[t, o]
//
// Taps come layer by layer, row by row, and are filled up to a multiple of four with weights 0 (their places
// are those of the first tap). Arrays of channels are filled up to a multiple of 64.
struct Depthwise {
  static constexpr const char* kName = "depthwise";
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
  int64_t narrow;   // 1: |acc| and |acc · factor| stay below 2^30 and fixed shifts are −2 or less
  int64_t table;    // constant uint8 [256] for stored codes, −1 for none

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("kernel_rows", kernel_rows);
    f("kernel_columns", kernel_columns), f("row_step", row_step), f("column_step", column_step);
    f("row_dilation", row_dilation), f("column_dilation", column_dilation), f("taps", taps);
    f("tap_offsets", tap_offsets), f("multiplier", multiplier), f("repeats", repeats);
    f("padded_outputs", padded_outputs), f("weights", weights), f("layers", layers), f("bias", bias);
    f("rescale", rescale), f("narrow", narrow), f("table", table);
  }
};

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

// Elementwise over one tensor. Axes that lie side by side in all tensors of a step are merged, the last axis
// has the channels where parameters belong to them.
//
// Arrays of parameters per channel repeat until they have kRepeated entries at least, and end on a multiple
// of kPadded: entry i serves place i of several short rows that are taken at once.
struct Single {
  Axes sizes, input_strides, output_strides;
  int64_t input_buffer, input_offset, output_buffer, output_offset;

  template <class F>
  void fields(F&& f) {
    f("sizes", sizes), f("input_strides", input_strides), f("output_strides", output_strides);
    f("input_buffer", input_buffer), f("input_offset", input_offset), f("output_buffer", output_buffer);
    f("output_offset", output_offset);
  }
};
constexpr int64_t kRepeated = 1024, kPadded = 64;

// Sums → codes.
struct Requantize {
  static constexpr const char* kName = "requantize";
  Single tensors;
  int64_t per_channel;  // 0: the arrays have one entry
  Rescale rescale;

  template <class F>
  void fields(F&& f) {
    f("tensors", tensors), f("per_channel", per_channel), f("rescale", rescale);
  }
};

// Elementwise over two tensors; a stride of 0 repeats (sizes are those of the output). Axes are merged as in
// Single.
struct Pair {
  Axes sizes, lhs_strides, rhs_strides, output_strides;
  int64_t lhs_buffer, lhs_offset, rhs_buffer, rhs_offset, output_buffer, output_offset;

  template <class F>
  void fields(F&& f) {
    f("sizes", sizes), f("lhs_strides", lhs_strides), f("rhs_strides", rhs_strides);
    f("output_strides", output_strides), f("lhs_buffer", lhs_buffer), f("lhs_offset", lhs_offset);
    f("rhs_buffer", rhs_buffer), f("rhs_offset", rhs_offset), f("output_buffer", output_buffer);
    f("output_offset", output_offset);
  }
};

struct Add {
  static constexpr const char* kName = "add";
  Pair pair;
  SumRule sum;
  int64_t table;  // constant uint8 [256], −1 for none

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("sum", sum), f("table", table);
  }
};

// Where lhs is sums (int32) and rhs sums or codes.
//   kind 1 (float)     rint(fl(fl(lhs[c]·a) + fl(rhs[c]·b)) / output) + zero_point
//   kind 2 (aligned)   ((a·lhs[c] + b·rhs[c] + 2^(shift[c]−1)) >> shift[c]) + zero_point, int64
// with b minus its zero point.
struct AddSums {
  static constexpr const char* kName = "add_sums";
  Pair pair;
  int64_t rhs_size;  // bytes per element: 4 sums, 1 stored codes
  int64_t kind;
  int64_t per_channel;             // 0: the arrays have one entry
  int64_t lhs_factor, rhs_factor;  // constants: float32 scales or int32 factors
  int64_t right_shift;             // constant int32
  double output;                   // scale of the output, float32 value
  int64_t rhs_zero;                // stored domain; 0 for sums
  int64_t zero_point, low, high;   // stored domain

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("rhs_size", rhs_size), f("kind", kind);
    f("per_channel", per_channel), f("lhs_factor", lhs_factor), f("rhs_factor", rhs_factor),
        f("right_shift", right_shift);
    f("output", output), f("rhs_zero", rhs_zero), f("zero_point", zero_point);
    f("low", low), f("high", high);
  }
};

// (A − z_a)(B − z_b) rescaled.
//   kind 1 (float)   rint(fl(fl(float32(acc) · factor) + raw zero point)), then + output_shift
//   else as Rescale::Kind    multiply(acc, multiplier, exponent) + zero point
struct Mul {
  static constexpr const char* kName = "mul";
  Pair pair;
  int64_t lhs_zero, rhs_zero;  // stored domain
  int64_t kind;
  double factor;  // float32 value
  int64_t multiplier, exponent;
  int64_t zero_point;    // raw
  int64_t output_shift;  // 0 or 128
  int64_t low, high;     // stored domain

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("lhs_zero", lhs_zero), f("rhs_zero", rhs_zero), f("kind", kind), f("factor", factor);
    f("multiplier", multiplier), f("exponent", exponent), f("zero_point", zero_point);
    f("output_shift", output_shift), f("low", low), f("high", high);
  }
};

struct Extreme {
  static constexpr const char* kName = "extreme";
  Pair pair;
  int64_t largest;  // 1 maximum, 0 minimum

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("largest", largest);
  }
};

// output = table[code].
struct Lookup {
  static constexpr const char* kName = "lookup";
  Single tensors;
  int64_t per_channel;  // 1: a table for every index of the last axis
  int64_t table;        // constant uint8 [256] or [channels][256], stored → stored

  template <class F>
  void fields(F&& f) {
    f("tensors", tensors), f("per_channel", per_channel), f("table", table);
  }
};

// Geometry of a pooling window. Only taps inside the image are visited.
struct Window {
  int64_t kernel_rows, kernel_columns, row_step, column_step, row_dilation, column_dilation;
  int64_t top, left, bottom, right;

  template <class F>
  void fields(F&& f) {
    f("kernel_rows", kernel_rows), f("kernel_columns", kernel_columns), f("row_step", row_step);
    f("column_step", column_step), f("row_dilation", row_dilation), f("column_dilation", column_dilation);
    f("top", top), f("left", left), f("bottom", bottom), f("right", right);
  }
};

struct MaxPool {
  static constexpr const char* kName = "max_pool";
  View input, output;
  Window window;

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("window", window);
  }
};

// The mean of a window by FloatAverage, CodeAverage or FixedRescale (docs/numerics.md).
struct AveragePool {
  static constexpr const char* kName = "average_pool";
  enum Kind : int64_t { kFloat = 1, kCodes = 2, kFixed = 3 };
  View input, output;
  Window window;
  int64_t count_pads, kind;
  double input_scale, output_scale;   // kFloat: float32 values
  int64_t rounding;                   // kFixed: a Rescale::Kind
  int64_t multiplier, exponent;       // kFixed: constants int32 [taps], entry n − 1 for windows of n taps
  int64_t input_zero, output_zero;    // raw
  int64_t input_shift, output_shift;  // 0 or 128
  int64_t low, high;                  // stored domain

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("window", window), f("count_pads", count_pads), f("kind", kind);
    f("input_scale", input_scale), f("output_scale", output_scale), f("rounding", rounding);
    f("multiplier", multiplier), f("exponent", exponent), f("input_zero", input_zero);
    f("output_zero", output_zero), f("input_shift", input_shift), f("output_shift", output_shift);
    f("low", low), f("high", high);
  }
};

// Reductions over axes: `outer` are the axes that stay, `inner` those that vanish, both in row-major order
// and filled up in front with axes of one.
struct Reduce {
  static constexpr const char* kName = "reduce";
  enum Kind : int64_t { kMean = 0, kLargest = 1, kSmallest = 2 };  // kMean: rescale of Σ(q − zero_point)
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  Axes outer_sizes, outer_strides, target_strides, inner_sizes, inner_strides;
  int64_t kind, zero_point;  // stored domain
  Rescale rescale;           // one channel

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset), f("target_buffer", target_buffer);
    f("target_offset", target_offset), f("outer_sizes", outer_sizes), f("outer_strides", outer_strides);
    f("target_strides", target_strides), f("inner_sizes", inner_sizes), f("inner_strides", inner_strides);
    f("kind", kind), f("zero_point", zero_point), f("rescale", rescale);
  }
};

// Index (int64) of the largest code along the middle axis of [outer, length, inner]: the first of equal ones,
// or the last.
struct ArgMax {
  static constexpr const char* kName = "arg_max";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t outer, length, inner, last;

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset), f("target_buffer", target_buffer);
    f("target_offset", target_offset), f("outer", outer), f("length", length), f("inner", inner);
    f("last", last);
  }
};

// Over the last axis of [rows, classes]; both tensors are dense. Entry i of the table is the exponential of a
// code that lies 255 − i below the largest of its row.
struct Softmax {
  static constexpr const char* kName = "softmax";
  enum Kind : int64_t { kFixed = 1, kFloat = 2, kInteger = 3 };
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t rows, classes, kind;
  int64_t table;                          // constant [256]: float32 (kFloat) or int32; kFixed: Q0.31
  double factor;                          // kFloat: float32 value
  int64_t integer_factor, fraction_bits;  // kInteger
  int64_t zero_point;                     // of the output, stored domain

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset), f("target_buffer", target_buffer);
    f("target_offset", target_offset), f("rows", rows), f("classes", classes), f("kind", kind);
    f("table", table), f("factor", factor), f("integer_factor", integer_factor);
    f("fraction_bits", fraction_bits), f("zero_point", zero_point);
  }
};

// Bilinear interpolation: float32 fractions and values (kEven), or fractions of 10 bits and codes.
struct ResizeLinear {
  static constexpr const char* kName = "resize_linear";
  enum Rounding : int64_t { kEven = 0, kAway = 1, kUp = 2 };
  View input, output;
  int64_t rounding;
  int64_t row_low, row_high, row_fraction;  // constants [output rows]: int32, int32, float32 or int32
  int64_t column_low, column_high, column_fraction;  // [output columns]
  double input_scale, output_scale;                  // kEven: float32 values
  int64_t input_zero, output_zero;                   // kEven: raw
  int64_t input_shift, output_shift;                 // 0 or 128

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("rounding", rounding), f("row_low", row_low);
    f("row_high", row_high), f("row_fraction", row_fraction), f("column_low", column_low);
    f("column_high", column_high), f("column_fraction", column_fraction), f("input_scale", input_scale);
    f("output_scale", output_scale), f("input_zero", input_zero), f("output_zero", output_zero);
    f("input_shift", input_shift), f("output_shift", output_shift);
  }
};

using AllSteps =
    std::tuple<FillHalo, Copy, Quantize, Dequantize, Conv, Depthwise, MatMul, Requantize, Add, AddSums, Mul,
               Extreme, Lookup, MaxPool, AveragePool, Reduce, ArgMax, Softmax, ResizeLinear>;
constexpr int kStepKinds = std::tuple_size_v<AllSteps>;

}  // namespace calib8::engine
