// Steps that move what they read: borders, copies, and the ways between float32 and codes.
#pragma once

#include "fields.h"

namespace calib8::engine {

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
void check_step(const FillHalo& step, Limits& limits);
void check_border(const FillHalo& step, Limits& limits, int64_t item);  // of elements of another size

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
void check_step(const Copy& step, Limits& limits);

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
void check_step(const Quantize& step, Limits& limits);

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
void check_step(const Dequantize& step, Limits& limits);

}  // namespace calib8::engine
