// Steps over windows and whole axes: pools, reductions, Softmax, LayerNorm, GroupNorm, Resize.
#pragma once

#include "fields.h"

namespace calib8::engine {

struct MaxPool {
  static constexpr const char* kName = "max_pool";
  View input, output;
  Window window;

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("window", window);
  }
};
void check_step(const MaxPool& step, Limits& limits);

// The mean of a window by FloatAverage, CodeAverage, FixedRescale or RealAverage (docs/numerics.md).
struct AveragePool {
  static constexpr const char* kName = "average_pool";
  enum Kind : int64_t { kFloat = 1, kCodes = 2, kFixed = 3, kReal = 4 };
  View input, output;
  Window window;
  int64_t count_pads, kind;
  double input_scale, output_scale;   // kFloat, kReal: float32 values
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
  template <class F>
  static void kinds(F&& f) {
    f("float", kFloat), f("codes", kCodes), f("fixed", kFixed), f("real", kReal);
  }
};
void check_step(const AveragePool& step, Limits& limits);

// Reductions over axes: `outer` are the axes that stay, `inner` those that vanish, both in row-major order
// and filled up in front with axes of one.
struct Reduce {
  static constexpr const char* kName = "reduce";
  // kMean: rescale of Σ(q − zero_point); kLength: of the root of Σ(q − zero_point)² (pools/lengths.h)
  enum Kind : int64_t { kMean = 0, kLargest = 1, kSmallest = 2, kLength = 3 };
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
  template <class F>
  static void kinds(F&& f) {
    f("mean", kMean), f("largest", kLargest), f("smallest", kSmallest), f("length", kLength);
  }
};
void check_step(const Reduce& step, Limits& limits);

// Index of the largest code along the middle axis of [outer, length, inner]: the first of equal ones, or the
// last. It is int64, or int32 where `item` is 4.
struct ArgMax {
  static constexpr const char* kName = "arg_max";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t outer, length, inner, last;
  int64_t item;  // bytes of an index, 4 or 8

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset), f("target_buffer", target_buffer);
    f("target_offset", target_offset), f("outer", outer), f("length", length), f("inner", inner);
    f("last", last), f("item", item);
  }
};
void check_step(const ArgMax& step, Limits& limits);

// Over the last axis of [rows, classes]; both tensors are dense. Entry i of the table is the exponential of a
// code that lies 255 − i below the largest of its row; kReal: entry 256·m + i that of code i where m is the
// largest.
struct Softmax {
  static constexpr const char* kName = "softmax";
  enum Kind : int64_t { kFixed = 1, kFloat = 2, kInteger = 3, kReal = 4 };
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  int64_t rows, classes, kind;
  int64_t table;  // constant [256]: float32 (kFloat) or int32; kFixed: Q0.31; kReal: float32 [256·256]
  double factor;  // float32 value; kReal: the scale of the output
  int64_t integer_factor, fraction_bits;  // kInteger
  int64_t zero_point;                     // of the output, stored domain

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset), f("target_buffer", target_buffer);
    f("target_offset", target_offset), f("rows", rows), f("classes", classes), f("kind", kind);
    f("table", table), f("factor", factor), f("integer_factor", integer_factor);
    f("fraction_bits", fraction_bits), f("zero_point", zero_point);
  }
  template <class F>
  static void kinds(F&& f) {
    f("fixed", kFixed), f("float", kFloat), f("integer", kInteger), f("real", kReal);
  }
};
void check_step(const Softmax& step, Limits& limits);

// Every pixel with mean 0 and spread 1, or with a mean square of 1, then scaled and shifted channel by
// channel (pools/norms.h).
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  enum Kind : int64_t { kFloat = 1, kFixed = 2 };
  static constexpr int64_t kMostChannels = int64_t{1} << 16;  // around the mean, half as many around a code
  View input, output;
  int64_t kind;
  int64_t factor, offset;         // constants [channels]: float32 (kFloat) or int32
  int64_t shift;                  // kFixed: constant int32 [channels], to the right
  double epsilon;                 // kFloat
  int64_t whole_epsilon;          // kFixed: with 16 fraction bits
  int64_t centre;                 // what is subtracted, stored domain: a code, or −1 for the mean
  int64_t zero_point, low, high;  // of the output, stored domain

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("kind", kind), f("factor", factor), f("offset", offset);
    f("shift", shift), f("epsilon", epsilon), f("whole_epsilon", whole_epsilon), f("centre", centre);
    f("zero_point", zero_point), f("low", low), f("high", high);
  }
  template <class F>
  static void kinds(F&& f) {
    f("float", kFloat), f("fixed", kFixed);
  }
};
void check_step(const LayerNorm& step, Limits& limits);

// Groups of channels of an image with mean 0 and spread 1 over all its pixels, then scaled and shifted
// channel by channel (pools/groups.h).
struct GroupNorm {
  static constexpr const char* kName = "group_norm";
  enum Kind : int64_t { kFloat = 1, kFixed = 2 };
  static constexpr int64_t kMostCodes = int64_t{1} << 23;  // of a group
  View input, output;
  int64_t kind, groups;
  int64_t factor, offset;               // constants [channels]: float32 (kFloat) or int32
  int64_t factor_shift, offset_shift;   // kFixed: constants int32 [channels], to the right
  double epsilon;                       // kFloat
  int64_t whole_epsilon, epsilon_bits;  // kFixed: with an even number of fraction bits
  int64_t zero_point, low, high;        // of the output, stored domain

  int64_t group_codes() const { return input.rows * input.columns * (input.channels / groups); }

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("kind", kind), f("groups", groups), f("factor", factor);
    f("offset", offset), f("factor_shift", factor_shift), f("offset_shift", offset_shift);
    f("epsilon", epsilon), f("whole_epsilon", whole_epsilon), f("epsilon_bits", epsilon_bits);
    f("zero_point", zero_point), f("low", low), f("high", high);
  }
  template <class F>
  static void kinds(F&& f) {
    f("float", kFloat), f("fixed", kFixed);
  }
};
void check_step(const GroupNorm& step, Limits& limits);

// Bilinear interpolation: float32 fractions and values (kEven) or codes (kFloatUp), or fractions of 10 bits
// and codes.
struct ResizeLinear {
  static constexpr const char* kName = "resize_linear";
  enum Rounding : int64_t { kEven = 0, kAway = 1, kUp = 2, kFloatUp = 3 };
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
  template <class F>
  static void kinds(F&& f) {
    f("even", kEven), f("away", kAway), f("up", kUp), f("float_up", kFloatUp);
  }
};
void check_step(const ResizeLinear& step, Limits& limits);

// ResizeLinear by kEven, and Dequantize of what it gives: rows of float32, plane after plane of channels.
struct ResizeToFloat {
  static constexpr const char* kName = "resize_to_float";
  View input;
  int64_t target_buffer, target_offset, rows, columns;
  int64_t image_stride, channel_stride, row_stride;  // of the output, in bytes; columns lie side by side
  int64_t row_low, row_high, row_fraction;           // constants [output rows]: int32, int32, float32
  int64_t column_low, column_high, column_fraction;  // [output columns]
  double input_scale, output_scale;                  // float32 values
  int64_t input_zero, output_zero;                   // raw
  int64_t input_shift, output_shift;                 // 0 or 128

  template <class F>
  void fields(F&& f) {
    f("input", input), f("target_buffer", target_buffer), f("target_offset", target_offset);
    f("rows", rows), f("columns", columns), f("image_stride", image_stride);
    f("channel_stride", channel_stride), f("row_stride", row_stride), f("row_low", row_low);
    f("row_high", row_high), f("row_fraction", row_fraction), f("column_low", column_low);
    f("column_high", column_high), f("column_fraction", column_fraction), f("input_scale", input_scale);
    f("output_scale", output_scale), f("input_zero", input_zero), f("output_zero", output_zero);
    f("input_shift", input_shift), f("output_shift", output_shift);
  }
};
void check_step(const ResizeToFloat& step, Limits& limits);

}  // namespace calib8::engine
