// AveragePool, kWidth channels of an output row at a time.
//
// Codes are summed as uint16: first each input column over the rows of the window, then the columns of a
// window. FloatMean is defined by a float32 sum with a rounding at every tap; the exact sum gives the same
// code unless its mean lies so close to the middle of two codes that those roundings could tip it, and only
// there is the sum of the definition formed:
//
//   |mean of the definition − mean from the exact sum| ≤ 2^−24 · (255 · s_x/s_y · (taps + 8) + 2048) codes
#pragma once

#include <cmath>

#include "averages.h"
#include "lanes_fixed.h"
#include "reference/reference.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kMostTaps = 256;  // so that sums fit 16 bits

// The rows of the image under a row of windows, at some channels.
struct AverageRows {
  const uint8_t* first;  // column 0
  int64_t rows, row_stride, column_stride;
};

// Sums or codes of kWidth channels, in the order of spread_low and spread_high.
struct Quad {
  Ints part[4];
};

// profile onnx
struct FloatMean {
  Ints zero, shift;
  Floats input_scale, output_scale, output_zero, low, high, limit;
  bool exact;  // is the exact sum ever enough?
  Bytes lowest, highest;

  FloatMean(const AveragePool& step, const Memory&)
      : zero(all_int(step.input_zero + step.input_shift)),
        shift(all_int(step.output_shift)),
        input_scale(all_float(step.input_scale)),
        output_scale(all_float(step.output_scale)),
        output_zero(all_float(step.output_zero)),
        low(all_float(step.low - step.output_shift)),
        high(all_float(step.high - step.output_shift)),
        lowest(V::set8(static_cast<int>(step.low))),
        highest(V::set8(static_cast<int>(step.high))) {
    const auto taps = static_cast<double>(step.window.kernel_rows * step.window.kernel_columns);
    const double bound = 255 * step.input_scale / step.output_scale * (taps + 8) + 2048;
    const double margin = std::ldexp(bound, -24);
    limit = all_float(0.5 - margin);
    exact = margin < 0.25 && std::fabs(std::log2(step.input_scale)) < 60 &&
            std::fabs(std::log2(step.output_scale)) < 60;
  }

  // By the definition: kLanes channels.
  Ints defined(const AverageRows& input, const AverageColumns& window, int64_t channel) const {
    Floats total = all_float(0);
    for (int64_t row = 0; row < input.rows; ++row) {
      const uint8_t* codes =
          input.first + row * input.row_stride + window.place * input.column_stride + channel;
      for (int32_t tap = 0; tap < window.taps; ++tap, codes += input.column_stride) {
        total = V::add(total, V::multiply(V::floats(V::subtract32(V::numbers(codes), zero)), input_scale));
      }
    }
    const Floats ratio = V::divide(V::divide(total, all_float(window.count)), output_scale);
    return V::add32(V::rounded(clamped(V::add(ratio, output_zero), low, high)), shift);
  }

  void store(const AverageRows& input, const AverageColumns& window, const Quad& sums, uint8_t* target,
             int64_t channels) const {
    const Floats factor = V::all(window.factor), offset = V::all(window.offset);
    Floats value[4], furthest = all_float(0);
    for (int i = 0; i < 4; ++i) {
      value[i] = V::multiply_add(V::floats(sums.part[i]), factor, offset);
      furthest = V::larger(furthest, V::distance_to_whole(value[i]));
    }
    if (!exact || V::any_above(furthest, limit)) {
      for (int64_t channel = 0; channel < kWidth && channel < channels; channel += kLanes) {
        V::store_numbers(target + channel, defined(input, window, channel), channels - channel);
      }
      return;
    }
    const Bytes codes =
        packed_codes(V::rounded(value[0]), V::rounded(value[1]), V::rounded(value[2]), V::rounded(value[3]));
    store_codes(target, V::clamp8(codes, lowest, highest), channels);
  }
};

// profile tflite: floor((|Σq| + n / 2) / n) as a product, exact for |Σq| ≤ 255·n and n ≤ 256.
struct CodeMean {
  int64_t zero;
  Ints shift;
  Bytes lowest, highest;

  CodeMean(const AveragePool& step, const Memory&)
      : zero(step.input_zero),
        shift(all_int(step.output_shift)),
        lowest(V::set8(static_cast<int>(step.low))),
        highest(V::set8(static_cast<int>(step.high))) {}

  void store(const AverageRows&, const AverageColumns& window, const Quad& sums, uint8_t* target,
             int64_t channels) const {
    const Ints inverse = V::all((1 << 24) / window.count + 1), half = V::all(window.count / 2);
    const Ints zeros = all_int(zero * window.count - window.zeros);
    Ints mean[4];
    for (int i = 0; i < 4; ++i) {
      const Ints sum = V::add32(sums.part[i], zeros);
      const Ints rounded = V::unsigned_right<24>(V::multiply32(V::add32(V::magnitude32(sum), half), inverse));
      mean[i] = V::add32(V::with_sign32(rounded, sum), shift);
    }
    const Bytes codes = packed_codes(mean[0], mean[1], mean[2], mean[3]);
    store_codes(target, V::clamp8(codes, lowest, highest), channels);
  }
};

// profile single
struct FixedMean {
  const int32_t *multiplier, *exponent;
  Ints zero;
  Bytes lowest, highest;

  FixedMean(const AveragePool& step, const Memory& memory)
      : multiplier(memory.constant<int32_t>(step.multiplier)),
        exponent(memory.constant<int32_t>(step.exponent)),
        zero(all_int(step.output_zero + step.output_shift)),
        lowest(V::set8(static_cast<int>(step.low))),
        highest(V::set8(static_cast<int>(step.high))) {}

  void store(const AverageRows&, const AverageColumns& window, const Quad& sums, uint8_t* target,
             int64_t channels) const {
    const int32_t entry = window.count - 1;
    const Ints zeros = V::all(window.zeros);
    Ints mean[4];
    for (int i = 0; i < 4; ++i) {
      const Ints total = V::subtract32(sums.part[i], zeros);
      mean[i] = V::add32(multiply_single_by(total, multiplier[entry], exponent[entry]), zero);
    }
    const Bytes codes = packed_codes(mean[0], mean[1], mean[2], mean[3]);
    store_codes(target, V::clamp8(codes, lowest, highest), channels);
  }
};

// Do the vector rules hold? FixedMean needs |Σ| · multiplier >> right to fit int32: |Σ| < 2^16.
bool average_fits(const AveragePool& step, const Memory& memory) {
  const int64_t taps = step.window.kernel_rows * step.window.kernel_columns;
  if (taps > kMostTaps || step.kind == AveragePool::kReal) return false;
  if (step.kind != AveragePool::kFixed) return true;
  if (step.rounding != Rescale::kSingle) return false;
  for (int64_t i = 0; i < taps; ++i) {
    if (memory.constant<int32_t>(step.exponent)[i] > 14) return false;
  }
  return true;
}

// What scratch memory holds: sums of every input column, [columns][groups][2][kWidth / 2], and the windows of
// a row.
struct AverageScratch {
  uint16_t* sums;
  int64_t column_stride;
  AverageColumns* windows;
};

// Have the windows of both rows as many taps that lie inside, and that count?
bool same_windows(const AveragePool& step, int64_t row, int64_t other) {
  const WindowAxis rows = row_axis(step.window, step.input);
  const Range down = rows.inside(row), others = rows.inside(other);
  const bool pads = step.count_pads != 0;
  return down.end - down.begin == others.end - others.begin &&
         rows.count(row, pads) == rows.count(other, pads);
}

void plan_windows(const AveragePool& step, int64_t row, AverageColumns* windows) {
  const WindowAxis columns = column_axis(step.window, step.input);
  const Range down = row_axis(step.window, step.input).inside(row);
  for (int64_t column = 0; column < step.output.columns; ++column) {
    const Range taps = columns.inside(column);
    const int64_t count = taps_that_count(step, row, column);
    const int64_t zeros =
        (step.input_zero + step.input_shift) * (taps.end - taps.begin) * (down.end - down.begin);
    const double factor = step.input_scale / (step.output_scale * static_cast<double>(count));
    const double offset =
        static_cast<double>(step.output_zero + step.output_shift) - static_cast<double>(zeros) * factor;
    windows[column] = {static_cast<int32_t>(columns.start(column) + taps.begin),
                       static_cast<int32_t>(taps.end - taps.begin),
                       static_cast<int32_t>(count),
                       static_cast<int32_t>(zeros),
                       static_cast<float>(factor),
                       static_cast<float>(offset)};
  }
}

void sum_columns(const AverageRows& input, const View& image, const AverageScratch& scratch) {
  for (int64_t column = 0; column < image.columns; ++column) {
    const uint8_t* pixel = input.first + column * input.column_stride;
    uint16_t* sums = scratch.sums + column * scratch.column_stride;
    for (int64_t channel = 0; channel < image.channels; channel += kWidth) {
      const uint8_t* codes = pixel + channel;
      const Bytes first = V::load(codes);
      Words low = spread_low8(first), high = spread_high8(first);
      for (int64_t row = 1; row < input.rows; ++row) {
        const Bytes next = V::load(codes + row * input.row_stride);
        low = V::wrap_add16(low, spread_low8(next));
        high = V::wrap_add16(high, spread_high8(next));
      }
      V::store(sums + channel, low);
      V::store(sums + channel + kWidth / 2, high);
    }
  }
}

// All channels of one window.
template <class Rule>
void average_pixel(const Rule& rule, const AverageRows& input, const AverageColumns& window,
                   const AverageScratch& scratch, uint8_t* target, int64_t channels) {
  const uint16_t* first = scratch.sums + window.place * scratch.column_stride;
  for (int64_t channel = 0; channel < channels; channel += kWidth) {
    const uint16_t* sums = first + channel;
    Words low = V::load(sums), high = V::load(sums + kWidth / 2);
    for (int32_t tap = 1; tap < window.taps; ++tap) {
      sums += scratch.column_stride;
      low = V::wrap_add16(low, V::load(sums));
      high = V::wrap_add16(high, V::load(sums + kWidth / 2));
    }
    const Quad quad{{spread_low16(low), spread_high16(low), spread_low16(high), spread_high16(high)}};
    AverageRows here = input;
    here.first += channel;
    rule.store(here, window, quad, target + channel, channels - channel);
  }
}

template <class Rule>
void average_lines(const AveragePool& step, const Memory& memory, Part part) {
  const Rule rule(step, memory);
  const View &in = step.input, &out = step.output;
  const WindowAxis rows = row_axis(step.window, in);
  auto* sums = reinterpret_cast<uint16_t*>(memory.scratch);
  const int64_t stride = (in.channels + kWidth - 1) / kWidth * kWidth;
  const AverageScratch scratch{sums, stride, reinterpret_cast<AverageColumns*>(sums + in.columns * stride)};
  const Range lines = share(part, out.images * out.rows);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    const int64_t image = line / out.rows, row = line % out.rows;
    if (line == lines.begin || !same_windows(step, row, row == 0 ? out.rows - 1 : row - 1)) {
      plan_windows(step, row, scratch.windows);
    }
    const Range taps = rows.inside(row);
    const AverageRows input{memory.data<uint8_t>(in) + in.at(image, rows.start(row) + taps.begin, 0),
                            taps.end - taps.begin, in.row_stride, in.column_stride};
    sum_columns(input, in, scratch);
    uint8_t* target = memory.data<uint8_t>(out) + out.at(image, row, 0);
    for (int64_t column = 0; column < out.columns; ++column, target += out.column_stride) {
      average_pixel(rule, input, scratch.windows[column], scratch, target, out.channels);
    }
  }
}

void average_pool(const AveragePool& step, const Memory& memory, Part part) {
  if (!average_fits(step, memory)) return reference_average_pool(step, memory, part);
  switch (step.kind) {
    case AveragePool::kFloat:
      return average_lines<FloatMean>(step, memory, part);
    case AveragePool::kCodes:
      return average_lines<CodeMean>(step, memory, part);
    default:
      return average_lines<FixedMean>(step, memory, part);
  }
}

}  // namespace
}  // namespace calib8::engine
