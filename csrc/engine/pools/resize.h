// Linear Resize, kLanes channels of an output pixel at a time.
#pragma once

#include "lanes.h"
#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The four input pixels of an output pixel, in the order in which they are summed.
struct Corners {
  const uint8_t* pixel[4];
};

// One axis of the tables.
template <class Fraction>
struct ResizeAxis {
  const int32_t *low, *high;
  const Fraction* fraction;
};

// The shares of two neighbours along both axes.
template <class T>
struct Sides {
  T up, down, left, right;
};

// One weight per corner, in their order.
template <class T>
struct CornerWeights {
  T weight[4];
};

template <class T>
CornerWeights<T> corner_weights(const Sides<T>& sides) {
  return {{sides.left * sides.up, sides.right * sides.up, sides.left * sides.down, sides.right * sides.down}};
}

// clamp(rint(fl(t / s_y))), a code minus its zero point. A product with 1 / s_y would round differently, and
// to divide only where that could be takes longer.
struct QuotientSteps {
  Floats scale, low, high;

  template <class Step>
  explicit QuotientSteps(const Step& step)
      : scale(all_float(step.output_scale)),
        low(all_float(-step.output_zero - step.output_shift)),
        high(all_float(255 - step.output_zero - step.output_shift)) {}

  Ints operator()(Floats total) const { return V::rounded(clamped(V::divide(total, scale), low, high)); }
};

// Fractions and values are float32: t = Σ weight · fl(s_x · (q − z_x)), added one by one.
struct RealPixel {
  using Fraction = float;
  static constexpr float kOne = 1;
  static CornerWeights<float> weights(const Sides<float>& sides) { return corner_weights(sides); }
  Floats scale;
  Ints zero, output_zero;
  QuotientSteps steps;

  explicit RealPixel(const ResizeLinear& step)
      : scale(all_float(step.input_scale)),
        zero(all_int(step.input_zero + step.input_shift)),
        output_zero(all_int(step.output_zero + step.output_shift)),
        steps(step) {}

  Floats weighted(const uint8_t* codes, float weight) const {
    const Floats value = V::multiply(V::floats(V::subtract32(V::numbers(codes), zero)), scale);
    return V::multiply(value, V::all(weight));
  }
  Ints codes(const Corners& corners, const CornerWeights<float>& weights, int64_t channel) const {
    Floats total = weighted(corners.pixel[0] + channel, weights.weight[0]);
    for (int i = 1; i < 4; ++i) {
      total = V::add(total, weighted(corners.pixel[i] + channel, weights.weight[i]));
    }
    return V::add32(steps(total), output_zero);
  }
};

// Fractions are float32, values the raw codes: t = Σ fl(fl(q·row share)·column share), column by column, and
// the result is fl(t + 1/2) without its fraction.
struct CodePixel {
  using Fraction = float;
  static constexpr float kOne = 1;
  static Sides<float> weights(const Sides<float>& sides) { return sides; }
  Floats half, low, high;
  Ints shift;

  explicit CodePixel(const ResizeLinear& step)
      : half(V::all(0.5F)),
        low(all_float(-step.output_shift)),
        high(all_float(255 - step.output_shift)),
        shift(all_int(step.output_shift)) {}

  Floats weighted(const uint8_t* codes, float row, float column) const {
    const Floats value = V::floats(V::subtract32(V::numbers(codes), shift));
    return V::multiply(V::multiply(value, V::all(row)), V::all(column));
  }
  Ints codes(const Corners& corners, const Sides<float>& sides, int64_t channel) const {
    Floats total = weighted(corners.pixel[0] + channel, sides.up, sides.left);
    total = V::add(total, weighted(corners.pixel[2] + channel, sides.down, sides.left));
    total = V::add(total, weighted(corners.pixel[1] + channel, sides.up, sides.right));
    total = V::add(total, weighted(corners.pixel[3] + channel, sides.down, sides.right));
    return V::add32(V::truncated(clamped(V::add(total, half), low, high)), shift);
  }
};

// Fractions have 10 bits: t = Σ weight · raw code; weights sum to 2^20, so codes stay within their type.
struct WholePixel {
  using Fraction = int32_t;
  static constexpr int32_t kOne = 1 << 10;
  static CornerWeights<int32_t> weights(const Sides<int32_t>& sides) { return corner_weights(sides); }
  bool away;
  Ints shift, half;

  explicit WholePixel(const ResizeLinear& step)
      : away(step.rounding == ResizeLinear::kAway), shift(all_int(step.input_shift)), half(V::all(1 << 19)) {}

  Ints codes(const Corners& corners, const CornerWeights<int32_t>& weights, int64_t channel) const {
    Ints total = V::all(0);
    for (int i = 0; i < 4; ++i) {
      const Ints raw = V::subtract32(V::numbers(corners.pixel[i] + channel), shift);
      total = V::add32(total, V::multiply32(raw, V::all(weights.weight[i])));
    }
    // away from zero: a negative total must be past the middle
    const Ints lowered = away ? V::add32(total, V::sign(total)) : total;
    return V::add32(V::right<20>(V::add32(lowered, half)), shift);
  }
};

template <class Pixel>
void resize_row(const ResizeLinear& step, const Memory& memory, const Pixel& pixel, int64_t image,
                int64_t row) {
  using Fraction = typename Pixel::Fraction;
  const View &in = step.input, &out = step.output;
  const uint8_t* input = memory.data<uint8_t>(in) + in.at(image, 0, 0);
  const uint8_t* upper = input + memory.constant<int32_t>(step.row_low)[row] * in.row_stride;
  const uint8_t* lower = input + memory.constant<int32_t>(step.row_high)[row] * in.row_stride;
  const int32_t* low = memory.constant<int32_t>(step.column_low);
  const int32_t* high = memory.constant<int32_t>(step.column_high);
  const Fraction down = memory.constant<Fraction>(step.row_fraction)[row], up = Pixel::kOne - down;
  uint8_t* target = memory.data<uint8_t>(out) + out.at(image, row, 0);
  for (int64_t column = 0; column < out.columns; ++column, target += out.column_stride) {
    const int64_t left_place = low[column] * in.column_stride, right_place = high[column] * in.column_stride;
    const Corners corners{{upper + left_place, upper + right_place, lower + left_place, lower + right_place}};
    const Fraction right = memory.constant<Fraction>(step.column_fraction)[column];
    const Fraction left = Pixel::kOne - right;
    const auto weights = Pixel::weights(Sides<Fraction>{up, down, left, right});
    for (int64_t channel = 0; channel < out.channels; channel += kLanes) {
      V::store_numbers(target + channel, pixel.codes(corners, weights, channel), out.channels - channel);
    }
  }
}

template <class Pixel>
void resize_rows(const ResizeLinear& step, const Memory& memory, Part part) {
  const Pixel pixel(step);
  const Range rows = share(part, step.output.images * step.output.rows);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    resize_row(step, memory, pixel, row / step.output.rows, row % step.output.rows);
  }
}

void resize_linear(const ResizeLinear& step, const Memory& memory, Part part) {
  if (step.rounding == ResizeLinear::kEven) {
    resize_rows<RealPixel>(step, memory, part);
  } else if (step.rounding == ResizeLinear::kFloatUp) {
    resize_rows<CodePixel>(step, memory, part);
  } else {
    resize_rows<WholePixel>(step, memory, part);
  }
}

}  // namespace
}  // namespace calib8::engine
