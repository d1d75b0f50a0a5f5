// Steps that treat every element alone.
#pragma once

#include "fields.h"

namespace calib8::engine {

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
void check_step(const Requantize& step, Limits& limits);

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
void check_step(const Add& step, Limits& limits);

// Where lhs is sums (int32) and rhs sums or codes.
//   kFloat     rint(fl(fl(lhs[c]·a) + fl(rhs[c]·b)) / output) + zero_point
//   kAligned   ((a·lhs[c] + b·rhs[c] + 2^(shift[c]−1)) >> shift[c]) + zero_point, int64
// with b minus its zero point.
struct AddSums {
  static constexpr const char* kName = "add_sums";
  enum Kind : int64_t { kFloat = 1, kAligned = 2 };
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
  template <class F>
  static void kinds(F&& f) {
    f("float", kFloat), f("aligned", kAligned);
  }
};
void check_step(const AddSums& step, Limits& limits);

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
void check_step(const Mul& step, Limits& limits);

// (A − z_a) / D[B], rescaled; the tables have an entry for every stored code of the right side.
//   kFloat   rint(fl(fl(fl(lhs·(A − z_a)) / divisor[B]) / output)) + zero_point
//   kFixed   (((A − z_a)·multiplier[B] + 2^(30−shift[B])) >> (31−shift[B])) + zero_point, int64
struct Div {
  static constexpr const char* kName = "div";
  enum Kind : int64_t { kFloat = 1, kFixed = 2 };
  static constexpr int64_t kCodes = 256;
  Pair pair;
  int64_t lhs_zero;  // stored domain
  int64_t kind;
  double lhs, output;             // kFloat: float32 values
  int64_t divisor;                // kFloat: constant float32 [256]
  int64_t multiplier, shift;      // kFixed: constants int32 [256], shift positive = left
  int64_t zero_point, low, high;  // stored domain

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("lhs_zero", lhs_zero), f("kind", kind), f("lhs", lhs), f("output", output);
    f("divisor", divisor), f("multiplier", multiplier), f("shift", shift), f("zero_point", zero_point);
    f("low", low), f("high", high);
  }
  template <class F>
  static void kinds(F&& f) {
    f("float", kFloat), f("fixed", kFixed);
  }
};
void check_step(const Div& step, Limits& limits);

// Sums → codes by way of the real number: round(fl(fl(fl(acc)·input)·factor[c]) / output), ties away from
// zero, + zero_point.
struct RealRescale {
  static constexpr const char* kName = "real_rescale";
  Single tensors;
  int64_t per_channel;            // 0: the array has one entry
  int64_t factor;                 // constant float32
  double input, output;           // float32 values
  int64_t zero_point, low, high;  // stored domain

  template <class F>
  void fields(F&& f) {
    f("tensors", tensors), f("per_channel", per_channel), f("factor", factor), f("input", input);
    f("output", output), f("zero_point", zero_point), f("low", low), f("high", high);
  }
};
void check_step(const RealRescale& step, Limits& limits);

// Two codes by way of their real numbers a = fl(lhs·(A − z_a)) and b = fl(rhs·(B − z_b)):
// round(fl(a + b) / output), or that of a − b or a·b, ties away from zero, + zero_point.
struct RealPair {
  static constexpr const char* kName = "real_pair";
  enum Kind : int64_t { kSum = 1, kDifference = 2, kProduct = 3 };
  Pair pair;
  int64_t kind;
  double lhs, rhs, output;        // float32 values
  int64_t lhs_zero, rhs_zero;     // stored domain
  int64_t zero_point, low, high;  // stored domain
  int64_t table;                  // constant uint8 [256], −1 for none

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("kind", kind), f("lhs", lhs), f("rhs", rhs), f("output", output);
    f("lhs_zero", lhs_zero), f("rhs_zero", rhs_zero), f("zero_point", zero_point);
    f("low", low), f("high", high), f("table", table);
  }
  template <class F>
  static void kinds(F&& f) {
    f("sum", kSum), f("difference", kDifference), f("product", kProduct);
  }
};
void check_step(const RealPair& step, Limits& limits);

struct Extreme {
  static constexpr const char* kName = "extreme";
  Pair pair;
  int64_t largest;  // 1 maximum, 0 minimum

  template <class F>
  void fields(F&& f) {
    f("pair", pair), f("largest", largest);
  }
};
void check_step(const Extreme& step, Limits& limits);

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
void check_step(const Lookup& step, Limits& limits);

}  // namespace calib8::engine
