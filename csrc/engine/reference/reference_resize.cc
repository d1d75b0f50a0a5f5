// Bilinear interpolation in plain loops.
//
//   t = (1−f)(1−g)·x[lo, lo] + (1−f)·g·x[lo, hi] + f·(1−g)·x[hi, lo] + f·g·x[hi, hi]
//
// f belongs to the row, g to the column; float32 in this order, or whole numbers of 10 fraction bits each.
// With kFloatUp x are codes, the two middle products change places, and every product is (x · row) · column.
#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

// The four input pixels of an output pixel, in the order of the sum.
struct Corners {
  int64_t place[4];
};

template <class Step>
Corners corners_of(const Step& step, const Memory& memory, int64_t image, int64_t row, int64_t column) {
  const int32_t low_row = memory.constant<int32_t>(step.row_low)[row];
  const int32_t high_row = memory.constant<int32_t>(step.row_high)[row];
  const int32_t low_column = memory.constant<int32_t>(step.column_low)[column];
  const int32_t high_column = memory.constant<int32_t>(step.column_high)[column];
  return {{step.input.at(image, low_row, low_column), step.input.at(image, low_row, high_column),
           step.input.at(image, high_row, low_column), step.input.at(image, high_row, high_column)}};
}

template <class T>
struct Weights {
  T weight[4];
};

template <class T>
Weights<T> weights_of(T down, T right, T one) {
  const T up = one - down, left = one - right;
  return {{left * up, right * up, left * down, right * down}};
}

template <class Step>
uint8_t real_code(const Step& step, const Weights<float>& weights, const uint8_t (&codes)[4]) {
  float total = 0;
  for (int i = 0; i < 4; ++i) {
    const int64_t steps = codes[i] - step.input_shift - step.input_zero;
    const float value = static_cast<float>(steps) * static_cast<float>(step.input_scale);
    total = i == 0 ? weights.weight[i] * value : total + weights.weight[i] * value;
  }
  const float ratio = total / static_cast<float>(step.output_scale);
  return static_cast<uint8_t>(rounded_code(ratio, step.output_zero + step.output_shift, 0, 255));
}

uint8_t float_code(const ResizeLinear& step, float down, float right, const uint8_t (&codes)[4]) {
  const float rows[2] = {1.0F - down, down}, columns[2] = {1.0F - right, right};
  float total = 0;
  for (int column = 0; column < 2; ++column) {
    for (int row = 0; row < 2; ++row) {
      const auto code = static_cast<float>(codes[2 * row + column] - step.input_shift);
      const float product = code * rows[row] * columns[column];
      total = row + column == 0 ? product : total + product;
    }
  }
  const auto least = static_cast<float>(-step.output_shift);
  const auto most = static_cast<float>(255 - step.output_shift);
  const float value = total + 0.5F;
  if (!(value > least)) return 0;
  return value > most ? 255 : static_cast<uint8_t>(static_cast<int64_t>(value) + step.output_shift);
}

uint8_t whole_code(const ResizeLinear& step, const Weights<int32_t>& weights, const uint8_t (&codes)[4]) {
  int64_t total = 0;
  for (int i = 0; i < 4; ++i) total += int64_t{weights.weight[i]} * (codes[i] - step.input_shift);
  const int64_t half = 1 << 19, magnitude = total < 0 ? -total : total;
  int64_t code = (total + half) >> 20;
  if (step.rounding == ResizeLinear::kAway) {
    code = total < 0 ? -((magnitude + half) >> 20) : (magnitude + half) >> 20;
  }
  return static_cast<uint8_t>(clamped(code + step.output_shift, 0, 255));
}

}  // namespace

void reference_resize_linear(const ResizeLinear& step, const Memory& memory, Part part) {
  const uint8_t* input = memory.data<uint8_t>(step.input);
  const View& out = step.output;
  const bool real = step.rounding == ResizeLinear::kEven;
  const Range pixels = share(part, out.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t column = pixel % out.columns, row = pixel / out.columns % out.rows;
    const int64_t image = pixel / out.columns / out.rows;
    const Corners corners = corners_of(step, memory, image, row, column);
    Weights<float> reals{};
    Weights<int32_t> wholes{};
    if (real) {
      reals = weights_of(memory.constant<float>(step.row_fraction)[row],
                         memory.constant<float>(step.column_fraction)[column], 1.0F);
    } else if (step.rounding != ResizeLinear::kFloatUp) {
      wholes = weights_of(memory.constant<int32_t>(step.row_fraction)[row],
                          memory.constant<int32_t>(step.column_fraction)[column], 1 << 10);
    }
    uint8_t* target = memory.data<uint8_t>(out) + out.at(image, row, column);
    for (int64_t channel = 0; channel < out.channels; ++channel) {
      uint8_t codes[4];
      for (int i = 0; i < 4; ++i) codes[i] = input[corners.place[i] + channel];
      if (step.rounding == ResizeLinear::kFloatUp) {
        target[channel] = float_code(step, memory.constant<float>(step.row_fraction)[row],
                                     memory.constant<float>(step.column_fraction)[column], codes);
      } else {
        target[channel] = real ? real_code(step, reals, codes) : whole_code(step, wholes, codes);
      }
    }
  }
}

void reference_resize_to_float(const ResizeToFloat& step, const Memory& memory, Part part) {
  const uint8_t* input = memory.data<uint8_t>(step.input);
  const Range rows = share(part, step.input.images * step.rows);
  const int64_t zero = step.output_zero + step.output_shift;
  for (int64_t index = rows.begin; index < rows.end; ++index) {
    const int64_t image = index / step.rows, row = index % step.rows;
    uint8_t* line = memory.data<uint8_t>(step.target_buffer, step.target_offset) + image * step.image_stride +
                    row * step.row_stride;
    for (int64_t column = 0; column < step.columns; ++column) {
      const Corners corners = corners_of(step, memory, image, row, column);
      const auto weights = weights_of(memory.constant<float>(step.row_fraction)[row],
                                      memory.constant<float>(step.column_fraction)[column], 1.0F);
      for (int64_t channel = 0; channel < step.input.channels; ++channel) {
        uint8_t codes[4];
        for (int i = 0; i < 4; ++i) codes[i] = input[corners.place[i] + channel];
        const auto steps = static_cast<float>(real_code(step, weights, codes) - zero);
        auto* plane = reinterpret_cast<float*>(line + channel * step.channel_stride);
        plane[column] = steps * static_cast<float>(step.output_scale);
      }
    }
  }
}

}  // namespace calib8::engine
