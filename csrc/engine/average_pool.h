// AveragePool, kWidth / 2 channels of an output row at a time.
//
// Codes are summed as uint16: first each input column over the rows of the window, then the columns of a
// window. kFloat is defined by a float32 sum with a rounding at every tap; the exact sum gives the same code
// unless its mean lies so close to the middle of two codes that those roundings could tip it, and only there
// is the sum of the definition formed:
//
//   |mean of the definition − exact mean| ≤ 2^−24 · (255 · s_x/s_y · (taps + 6) + 1024)      in codes
#pragma once

#include <cmath>

#include "averages.h"
#include "lanes.h"
#include "reference.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kMostTaps = 256;  // so that sums fit 16 bits
constexpr int64_t kHalf = kWidth / 2;

// What a step has in common for all its windows.
struct AverageRule {
  const AveragePool& step;
  const Memory& memory;
  float margin;  // kFloat: how close to a tie the exact mean is not enough; above 0.25: it never is

  AverageRule(const AveragePool& pool, const Memory& all) : step(pool), memory(all), margin(1) {
    const double taps = static_cast<double>(pool.window.kernel_rows * pool.window.kernel_columns);
    const double bound = 255 * pool.input_scale / pool.output_scale * (taps + 6) + 1024;
    const bool tame =
        std::fabs(std::log2(pool.input_scale)) < 60 && std::fabs(std::log2(pool.output_scale)) < 60;
    if (tame) margin = static_cast<float>(std::ldexp(bound, -24));
  }
};

// The taps of one window at one group of channels.
struct AverageWindow {
  const uint8_t* first;  // first tap inside the image
  int64_t rows, columns, row_stride, column_stride, count;
};

// kFloat as it is defined: kLanes channels from `channel` on.
Ints defined_average(const AverageRule& rule, const AverageWindow& window, int64_t channel) {
  const AveragePool& step = rule.step;
  const Ints zero = splat_int(static_cast<int32_t>(step.input_zero + step.input_shift));
  const Floats scale = splat_float(static_cast<float>(step.input_scale));
  Floats total = splat_float(0);
  for (int64_t row = 0; row < window.rows; ++row) {
    const uint8_t* codes = window.first + row * window.row_stride + channel;
    for (int64_t column = 0; column < window.columns; ++column, codes += window.column_stride) {
      total = add(total, multiply(to_floats(subtract(widen_codes(codes), zero)), scale));
    }
  }
  const Floats mean = divide(total, splat_float(static_cast<float>(window.count)));
  const Floats ratio = divide(mean, splat_float(static_cast<float>(step.output_scale)));
  const Floats value = add(ratio, splat_float(static_cast<float>(step.output_zero)));
  const Floats low = splat_float(static_cast<float>(step.low - step.output_shift));
  const Floats high = splat_float(static_cast<float>(step.high - step.output_shift));
  return add(round_to_ints(clamp_floats(value, low, high)),
             splat_int(static_cast<int32_t>(step.output_shift)));
}

// `total` is Σ (q − z_x).
Ints float_average(const AverageRule& rule, const AverageWindow& window, Ints total, int64_t channel) {
  const AveragePool& step = rule.step;
  if (!(rule.margin < 0.25F)) return defined_average(rule, window, channel);
  const double factor = step.input_scale / (step.output_scale * static_cast<double>(window.count));
  const Floats value = add(multiply(to_floats(total), splat_float(static_cast<float>(factor))),
                           splat_float(static_cast<float>(step.output_zero)));
  const Floats low = splat_float(static_cast<float>(step.low - step.output_shift));
  const Floats high = splat_float(static_cast<float>(step.high - step.output_shift));
  const Floats within = clamp_floats(value, low, high);
  const Ints rounded = round_to_ints(within);
  if (any_beyond(within, rounded, splat_float(0.5F - rule.margin))) {
    return defined_average(rule, window, channel);
  }
  return add(rounded, splat_int(static_cast<int32_t>(step.output_shift)));
}

// floor((|Σq| + n / 2) / n) as a product: exact, for |Σq| ≤ 255·n and n ≤ 256.
Ints code_average(const AverageRule& rule, const AverageWindow& window, Ints total) {
  const AveragePool& step = rule.step;
  const auto count = static_cast<int32_t>(window.count);
  const Ints codes = add(total, splat_int(static_cast<int32_t>(step.input_zero) * count));
  const Ints inverse = splat_int((1 << 24) / count + 1);
  const Ints mean = shift_right_unsigned(multiply(add(magnitude(codes), splat_int(count / 2)), inverse), 24);
  const Ints stored = add(with_sign(mean, codes), splat_int(static_cast<int32_t>(step.output_shift)));
  return clamp_ints(stored, splat_int(static_cast<int32_t>(step.low)),
                    splat_int(static_cast<int32_t>(step.high)));
}

// single rounding; fixed_fits says that nothing leaves int32.
Ints fixed_average(const AverageRule& rule, const AverageWindow& window, Ints total) {
  const AveragePool& step = rule.step;
  const int32_t multiplier = rule.memory.constant<int32_t>(step.multiplier)[window.count - 1];
  const int32_t exponent = rule.memory.constant<int32_t>(step.exponent)[window.count - 1];
  const Ints zero = splat_int(static_cast<int32_t>(step.output_zero + step.output_shift));
  const Ints stored = add(multiply_shift(total, multiplier, 31 - exponent), zero);
  return clamp_ints(stored, splat_int(static_cast<int32_t>(step.low)),
                    splat_int(static_cast<int32_t>(step.high)));
}

// Are the sums of this step such that the vector rules hold? |Σ| · multiplier < 2^47.
bool average_fits(const AveragePool& step, const Memory& memory) {
  const int64_t taps = step.window.kernel_rows * step.window.kernel_columns;
  if (taps > kMostTaps) return false;
  if (step.kind != AveragePool::kFixed) return true;
  if (step.rounding != Rescale::kSingle) return false;
  for (int64_t i = 0; i < taps; ++i) {
    if (memory.constant<int32_t>(step.exponent)[i] > 14) return false;
  }
  return true;
}

Ints average_codes(const AverageRule& rule, const AverageWindow& window, Ints sum, int64_t channel) {
  const AveragePool& step = rule.step;
  const int64_t zeros = (step.input_zero + step.input_shift) * window.rows * window.columns;
  const Ints total = subtract(sum, splat_int(static_cast<int32_t>(zeros)));
  if (step.kind == AveragePool::kFloat) return float_average(rule, window, total, channel);
  return step.kind == AveragePool::kCodes ? code_average(rule, window, total)
                                          : fixed_average(rule, window, total);
}

// Sums of every input column over some rows, [columns][kHalf].
void sum_columns(const uint8_t* first, int64_t rows, int64_t columns, const View& in, uint16_t* sums) {
  for (int64_t column = 0; column < columns; ++column) {
    const uint8_t* codes = first + column * in.column_stride;
    Words sum = widen_bytes(codes);
    for (int64_t row = 1; row < rows; ++row) sum = add_words(sum, widen_bytes(codes + row * in.row_stride));
    store_words(sums + column * kHalf, sum);
  }
}

// One row of outputs at one group of channels.
void average_line(const AverageRule& rule, int64_t image, int64_t row, int64_t channel) {
  const View &in = rule.step.input, &out = rule.step.output;
  const WindowAxis rows = row_axis(rule.step.window, in), columns = column_axis(rule.step.window, in);
  const Range down = rows.inside(row);
  const uint8_t* first =
      rule.memory.data<uint8_t>(in) + in.at(image, rows.start(row) + down.begin, 0) + channel;
  uint8_t* target = rule.memory.data<uint8_t>(out) + out.at(image, row, 0) + channel;
  auto* sums = reinterpret_cast<uint16_t*>(rule.memory.scratch);
  sum_columns(first, down.end - down.begin, in.columns, in, sums);
  const int64_t channels = out.channels - channel;
  for (int64_t column = 0; column < out.columns; ++column, target += out.column_stride) {
    const Range across = columns.inside(column);
    const int64_t place = columns.start(column) + across.begin;
    Words sum = zero_words();
    for (int64_t tap = 0; tap < across.end - across.begin; ++tap) {
      sum = add_words(sum, load_words(sums + (place + tap) * kHalf));
    }
    const AverageWindow window{first + place * in.column_stride,
                               down.end - down.begin,
                               across.end - across.begin,
                               in.row_stride,
                               in.column_stride,
                               taps_that_count(rule.step, row, column)};
    store_codes(target, average_codes(rule, window, low_ints(sum), 0), channels);
    if (channels > kLanes) {
      store_codes(target + kLanes, average_codes(rule, window, high_ints(sum), kLanes), channels - kLanes);
    }
  }
}

void average_pool(const AveragePool& step, const Memory& memory, Part part) {
  if (!average_fits(step, memory)) return reference_average_pool(step, memory, part);
  const AverageRule rule(step, memory);
  const View& out = step.output;
  const int64_t groups = (out.channels + kHalf - 1) / kHalf;
  const Range items = share(part, out.images * out.rows * groups);
  for (int64_t item = items.begin; item < items.end; ++item) {
    average_line(rule, item / groups / out.rows, item / groups % out.rows, item % groups * kHalf);
  }
}

}  // namespace
}  // namespace calib8::engine
