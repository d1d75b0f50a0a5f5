// What several kinds of steps have in common.
#pragma once

#include <array>
#include <cstdint>

#include "../view.h"

namespace calib8::engine {

constexpr int kAxes = 6;
using Axes = std::array<int64_t, kAxes>;

// How sums become codes. `code = clamp(round(acc · factor[c]) + zero_point, low, high)`.
struct Rescale {
  static constexpr const char* kName = "rescale";
  enum Kind : int64_t { kNone = 0, kFloat = 1, kDouble = 2, kSingle = 3, kAway = 4 };
  int64_t kind;        // kNone: the sums themselves are stored, int32
  int64_t factor;      // constant: float32 per channel (kFloat) or int32 multipliers
  int64_t shift;       // constant: int32 per channel, positive = left (kDouble, kSingle, kAway)
  int64_t zero_point;  // stored domain, as low and high
  int64_t low, high;

  bool fixed() const { return kind == kDouble || kind == kSingle || kind == kAway; }

  template <class F>
  void fields(F&& f) {
    f("kind", kind), f("factor", factor), f("shift", shift);
    f("zero_point", zero_point), f("low", low), f("high", high);
  }
  template <class F>
  static void kinds(F&& f) {
    f("none", kNone), f("float", kFloat), f("double", kDouble), f("single", kSingle), f("away", kAway);
  }
};

// A function behind a layer, from its sums to codes.
//   kTwoSided   sums below 0 have factors of their own, of any sign
//   kCurve      v = the rescaled sum, saturated at 16 bits; u = v clamped to the 32 segments of 2^shift
//   steps;
//               i = u >> shift, d = (u mod 2^shift) << (15 − shift), R(p) = (p + 2^14) >> 15
//               y = value[i] + R((R(bend[i]·d) + slope[i])·d) + R((v − u)·(v > u ? above : below))
//               code = clamp(y >> 6, low, high); sums and differences saturate at 16 bits
struct Activation {
  static constexpr const char* kName = "activation";
  enum Kind : int64_t { kNone = 0, kTwoSided = 1, kCurve = 2 };
  int64_t kind;
  int64_t negative, negative_shift;  // kTwoSided: as factor and shift of the rescale
  int64_t segments;                  // constant int16 [3][32]: value, slope, bend of segment i at i mod 32
  int64_t shift, first;              // steps of a segment, as a power of two; number of the first segment
  int64_t below, above;              // parts of 2^15

  template <class F>
  void fields(F&& f) {
    f("kind", kind), f("negative", negative), f("negative_shift", negative_shift), f("segments", segments);
    f("shift", shift), f("first", first), f("below", below), f("above", above);
  }
  template <class F>
  static void kinds(F&& f) {
    f("none", kNone), f("two_sided", kTwoSided), f("curve", kCurve);
  }

  int64_t least() const { return first * (int64_t{1} << shift); }  // u at least and at most
  int64_t most() const { return (first + kSegments) * (int64_t{1} << shift) - 1; }
  static constexpr int64_t kSegments = 32, kMostShift = 11, kFractionBits = 6;
};

// How two codes are added (or subtracted).  A = stored − lhs_shift and B = stored − rhs_shift are raw codes.
//   kFloatSum      rint(fma(A, lhs, fma(B, rhs, fixed)))                                        raw result
//   kDequantized   rint(fl(fl(lhs·(A−z_a)) ± fl(rhs·(B−z_b))) / output) + z_y
//   kScaled        M(M((A−z_a) << left_shift, lhs) ± M((B−z_b) << left_shift, rhs), output) + z_y
//   kAligned       (((A−z_a)·lhs ± (B−z_b)·rhs + 2^(right_shift−1)) >> right_shift) + z_y
// then + output_shift, then the clamp to low … high (stored domain). Zero points are raw.
struct SumRule {
  static constexpr const char* kName = "sum_rule";
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
  template <class F>
  static void kinds(F&& f) {
    f("none", kNone), f("float", kFloatSum), f("dequantized", kDequantized), f("scaled", kScaled),
        f("aligned", kAligned);
  }
};

// Elementwise over one tensor. Axes that lie side by side in all tensors of a step are merged, the last axis
// has the channels where parameters belong to them.
//
// Arrays of parameters per channel repeat until they have kRepeated entries at least, and end on a multiple
// of kPadded: entry i serves place i of several short rows that are taken at once.
struct Single {
  static constexpr const char* kName = "single";
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

// Elementwise over two tensors; a stride of 0 repeats (sizes are those of the output). Axes are merged as in
// Single.
struct Pair {
  static constexpr const char* kName = "pair";
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

// Geometry of a pooling window. Only taps inside the image are visited.
struct Window {
  static constexpr const char* kName = "window";
  int64_t kernel_rows, kernel_columns, row_step, column_step, row_dilation, column_dilation;
  int64_t top, left, bottom, right;

  template <class F>
  void fields(F&& f) {
    f("kernel_rows", kernel_rows), f("kernel_columns", kernel_columns), f("row_step", row_step);
    f("column_step", column_step), f("row_dilation", row_dilation), f("column_dilation", column_dilation);
    f("top", top), f("left", left), f("bottom", bottom), f("right", right);
  }
};

class Limits;  // what a plan may touch (../limits.h); every kind of step has a check_step

}  // namespace calib8::engine
