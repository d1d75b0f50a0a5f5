// Steps with 16-bit codes (spots): int16 as they are, beside stored codes of 8 bits. An item of 1 byte is a
// stored code, of 2 a 16-bit code, of 4 a sum.
//
// A layer with 16-bit codes whose sums fit int32 is a WideConv or a WideDepthwise. Where they might not fit,
// a layer that reads 16-bit codes x = 256·hi + lo is two layers of 8 bits that make sums, of the planes hi
// and lo, and a Finish:
//
//   Plane, Plane   →   Conv | Depthwise, Conv | Depthwise   →   Finish      acc = 256·Σ hi·w + Σ lo·w + bias
#pragma once

#include "fields.h"
#include "layers.h"
#include "moves.h"
#include "pools.h"

namespace calib8::engine {

// One byte of 16-bit codes as stored codes: the upper one, plus 128, or the lower one.
struct Plane {
  static constexpr const char* kName = "plane";
  Single tensors;
  int64_t upper;  // 1 or 0

  template <class F>
  void fields(F&& f) {
    f("tensors", tensors), f("upper", upper);
  }
};
void check_step(const Plane& step, Limits& limits);

// acc = weight·lhs + rhs + bias[c] of two tensors of sums, in 64 bits, rescaled as those of a layer. A curve
// ends in clamp(y >> 6), or in clamp(4·y − 2^15) where the output has 16 bits. Arrays per channel are filled
// up to a multiple of 64.
struct Finish {
  static constexpr const char* kName = "finish";
  Pair pair;
  int64_t weight;       // 256, or 0 where lhs is nothing but rhs once more
  int64_t output_size;  // 4: acc itself, which fits
  int64_t bias;         // constant int32, arrays as those of the rule; −1 where weight is 0
  Rescale rescale;      // of the output; kFloat and kSingle where weight is not 0
  Activation activation;

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("weight", weight), f("output_size", output_size), f("bias", bias);
    f("rescale", rescale), f("activation", activation);
  }
};
void check_step(const Finish& step, Limits& limits);

// Add where an operand or the output has 16 bits.
struct WideAdd {
  static constexpr const char* kName = "wide_add";
  Pair pair;
  int64_t lhs_size, rhs_size, output_size;
  SumRule sum;  // kScaled with 16-bit operands: a left shift of 15 at most

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("lhs_size", lhs_size), f("rhs_size", rhs_size), f("output_size", output_size);
    f("sum", sum);
  }
};
void check_step(const WideAdd& step, Limits& limits);

// Mul where an operand or the output has 16 bits.
struct WideMul {
  static constexpr const char* kName = "wide_mul";
  Pair pair;
  int64_t lhs_size, rhs_size, output_size;
  int64_t lhs_zero, rhs_zero;  // stored domain where that is one
  int64_t kind;
  double factor;  // float32 value
  int64_t multiplier, exponent;
  int64_t zero_point;    // raw
  int64_t output_shift;  // 0 or 128
  int64_t low, high;     // as lhs_zero

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("lhs_size", lhs_size), f("rhs_size", rhs_size), f("output_size", output_size);
    f("lhs_zero", lhs_zero), f("rhs_zero", rhs_zero), f("kind", kind), f("factor", factor);
    f("multiplier", multiplier), f("exponent", exponent), f("zero_point", zero_point);
    f("output_shift", output_shift), f("low", low), f("high", high);
  }
};
void check_step(const WideMul& step, Limits& limits);

// output = table[code + 2^15], or table[stored code].
struct WideLookup {
  static constexpr const char* kName = "wide_lookup";
  Single tensors;
  int64_t input_size, output_size;
  int64_t per_channel;  // 1: a table for every index of the last axis; of 8 bits alone
  int64_t table;        // constant [2^16], [256] or [channels][256], items of the output

  template <class F>
  void fields(F&& f) {
    f("tensors", tensors), f("input_size", input_size), f("output_size", output_size);
    f("per_channel", per_channel), f("table", table);
  }
};
void check_step(const WideLookup& step, Limits& limits);

struct WideMaxPool {
  static constexpr const char* kName = "wide_max_pool";
  View input, output;
  Window window;

  template <class F>
  void fields(F&& f) {
    f("input", input), f("output", output), f("window", window);
  }
};
void check_step(const WideMaxPool& step, Limits& limits);

// Quantize to 16 bits, and Dequantize from there: axes and strides as theirs.
struct WideQuantize {
  static constexpr const char* kName = "wide_quantize";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  Axes sizes, source_strides, target_strides;  // strides in bytes
  double scale;                                // float32 value
  int64_t zero_point, away;

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("sizes", sizes);
    f("source_strides", source_strides), f("target_strides", target_strides), f("scale", scale);
    f("zero_point", zero_point), f("away", away);
  }
};
void check_step(const WideQuantize& step, Limits& limits);

struct WideDequantize {
  static constexpr const char* kName = "wide_dequantize";
  int64_t source_buffer, source_offset, target_buffer, target_offset;
  Axes sizes, source_strides, target_strides;  // strides in bytes
  double scale;                                // float32 value
  int64_t zero_point;

  template <class F>
  void fields(F&& f) {
    f("source_buffer", source_buffer), f("source_offset", source_offset);
    f("target_buffer", target_buffer), f("target_offset", target_offset), f("sizes", sizes);
    f("source_strides", source_strides), f("target_strides", target_strides), f("scale", scale);
    f("zero_point", zero_point);
  }
};
void check_step(const WideDequantize& step, Limits& limits);

// Conv that reads or writes 16-bit codes, where every sum fits int32: partial sums may wrap. It has neither a
// residual nor a table. Strides and offsets of taps are in elements, as they are of Conv.
struct WideConv {
  static constexpr const char* kName = "wide_conv";
  Conv layer;
  int64_t input_size, output_size;

  template <class F>
  void fields(F&& f) {
    f("layer", layer), f("input_size", input_size), f("output_size", output_size);
  }
};
void check_step(const WideConv& step, Limits& limits);

// Depthwise likewise.
struct WideDepthwise {
  static constexpr const char* kName = "wide_depthwise";
  Depthwise layer;
  int64_t input_size, output_size;

  template <class F>
  void fields(F&& f) {
    f("layer", layer), f("input_size", input_size), f("output_size", output_size);
  }
};
void check_step(const WideDepthwise& step, Limits& limits);

// FillHalo with a code of 16 bits.
struct WideFillHalo {
  static constexpr const char* kName = "wide_fill_halo";
  FillHalo border;

  template <class F>
  void fields(F&& f) {
    f("border", border);
  }
};
void check_step(const WideFillHalo& step, Limits& limits);

// Reduce by kLength of or to 16-bit codes. Zero points and clamps of 16-bit codes are raw.
struct WideLength {
  static constexpr const char* kName = "wide_length";
  static constexpr int64_t kMostCodes = int64_t{1} << 28;  // of a vector: S < 2^61
  Reduce reduction;
  int64_t input_size, output_size;

  template <class F>
  void fields(F&& f) {
    f("reduction", reduction), f("input_size", input_size), f("output_size", output_size);
  }
};
void check_step(const WideLength& step, Limits& limits);

// LayerNorm of or to 16-bit codes, in float32 alone. `centred` takes the place of a centre of −1: any number
// may be a zero point.
struct WideLayerNorm {
  static constexpr const char* kName = "wide_layer_norm";
  LayerNorm norm;
  int64_t input_size, output_size, centred;

  template <class F>
  void fields(F&& f) {
    f("norm", norm), f("input_size", input_size), f("output_size", output_size), f("centred", centred);
  }
};
void check_step(const WideLayerNorm& step, Limits& limits);

}  // namespace calib8::engine
