// Moving codes about in plain loops: borders, copies, and the way from and to float32.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

template <class Item>
void fill_border(const FillHalo& step, const Memory& memory, Part part) {
  const View& view = step.view;
  const int64_t rows = view.rows + step.top + step.bottom;
  const Range lines = share(part, view.images * rows);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    const int64_t image = line / rows, row = line % rows - step.top;
    Item* first = memory.data<Item>(view) + view.at(image, row, 0);
    const bool outside = row < 0 || row >= view.rows;
    if (outside && view.column_stride == view.channels) {
      const int64_t count = (step.left + view.columns + step.right) * view.channels;
      std::fill_n(first - step.left * view.channels, count, static_cast<Item>(step.value));
      continue;
    }
    for (int64_t column = -step.left; column < view.columns + step.right; ++column) {
      if (outside || column < 0 || column >= view.columns) {
        std::fill_n(first + column * view.column_stride, view.channels, static_cast<Item>(step.value));
      }
    }
  }
}

int64_t elements(const Axes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

// The indices of the element with this place in row-major order.
Axes indices_of(int64_t place, const Axes& sizes) {
  Axes index{};
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    index[axis] = place % sizes[axis];
    place /= sizes[axis];
  }
  return index;
}

int64_t distance(const Axes& index, const Axes& strides) {
  int64_t sum = 0;
  for (int axis = 0; axis < kAxes; ++axis) sum += index[axis] * strides[axis];
  return sum;
}

int64_t source_distance(const Copy& step, const Memory& memory, const Axes& index) {
  int64_t sum = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    const int64_t* table = memory.constant<int64_t>(step.source_tables[axis]);
    sum += table != nullptr ? table[index[axis]] : index[axis] * step.source_strides[axis];
  }
  return sum;
}

// The nearest integer, ties away from zero; exact, unlike floor(|x| + 0.5).
float rounded_away(float value) {
  const float whole = std::trunc(value);
  return std::fabs(value - whole) >= 0.5F ? whole + std::copysign(1.0F, value) : whole;
}

// The code of a number in steps, raw.
int64_t code_of(float steps, int64_t zero_point, int64_t low, int64_t high, int64_t away) {
  const auto least = static_cast<float>(low - zero_point);
  const auto most = static_cast<float>(high - zero_point);
  float code = steps > least ? steps : least;  // NaN gives the lowest code
  code = code < most ? code : most;
  code = away != 0 ? rounded_away(code) : std::nearbyint(code);
  return static_cast<int64_t>(code) + zero_point;
}

uint8_t quantized(const Quantize& step, float value) {
  const float steps = value / static_cast<float>(step.scale);
  return static_cast<uint8_t>(code_of(steps, step.zero_point, step.low, step.high, step.away) + step.shift);
}

template <class T>
T loaded(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

}  // namespace

void reference_fill_halo(const FillHalo& step, const Memory& memory, Part part) {
  fill_border<uint8_t>(step, memory, part);
}
void reference_wide_fill_halo(const WideFillHalo& step, const Memory& memory, Part part) {
  fill_border<int16_t>(step.border, memory, part);
}

void reference_copy(const Copy& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const Axes index = indices_of(place, step.sizes);
    const int64_t from = source_distance(step, memory, index), to = distance(index, step.target_strides);
    for (int64_t byte = 0; byte < step.run; ++byte) {
      target[to + byte] = static_cast<uint8_t>(source[from + byte] ^ step.exclusive_or);
    }
  }
}

void reference_quantize(const Quantize& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const Axes index = indices_of(place, step.sizes);
    const auto value = loaded<float>(source + distance(index, step.source_strides));
    target[distance(index, step.target_strides)] = quantized(step, value);
  }
}

void reference_wide_quantize(const WideQuantize& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const Axes index = indices_of(place, step.sizes);
    const float steps =
        loaded<float>(source + distance(index, step.source_strides)) / static_cast<float>(step.scale);
    const auto code = static_cast<int16_t>(code_of(steps, step.zero_point, INT16_MIN, INT16_MAX, step.away));
    std::memcpy(target + distance(index, step.target_strides), &code, sizeof code);
  }
}

void reference_wide_dequantize(const WideDequantize& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const Axes index = indices_of(place, step.sizes);
    const int64_t code = loaded<int16_t>(source + distance(index, step.source_strides)) - step.zero_point;
    const float value = static_cast<float>(step.scale) * static_cast<float>(code);
    std::memcpy(target + distance(index, step.target_strides), &value, sizeof value);
  }
}

void reference_dequantize(const Dequantize& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const uint8_t* scales = memory.constant<uint8_t>(step.scales);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const Axes index = indices_of(place, step.sizes);
    const uint8_t* from = source + distance(index, step.source_strides);
    const int64_t code = (step.source_size == 1 ? *from : loaded<int32_t>(from)) - step.zero_point;
    const float value =
        loaded<float>(scales + distance(index, step.scale_strides)) * static_cast<float>(code);
    std::memcpy(target + distance(index, step.target_strides), &value, sizeof value);
  }
}

}  // namespace calib8::engine
