// Moving codes about in plain loops: borders, copies, and the way from and to float32.
#include <cmath>
#include <cstring>

#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

void fill(uint8_t* first, int64_t bytes, int64_t value) {
  std::memset(first, static_cast<int>(value), static_cast<size_t>(bytes));
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

}  // namespace

void reference_fill_halo(const FillHalo& step, const Memory& memory, Part part) {
  const View& view = step.view;
  const int64_t rows = view.rows + step.top + step.bottom;
  const Range lines = share(part, view.images * rows);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    const int64_t image = line / rows, row = line % rows - step.top;
    uint8_t* first = memory.data<uint8_t>(view) + view.at(image, row, 0);
    const bool outside = row < 0 || row >= view.rows;
    for (int64_t column = -step.left; column < view.columns + step.right; ++column) {
      if (outside || column < 0 || column >= view.columns) {
        fill(first + column * view.column_stride, view.channels, step.value);
      }
    }
  }
}

void reference_copy(const Copy& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const int32_t* indices = step.gather_axis < 0 ? nullptr : memory.constant<int32_t>(step.indices);
  const Range places = share(part, elements(step.sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    Axes index = indices_of(place, step.sizes);
    const int64_t to = distance(index, step.target_strides) * step.element_size;
    if (indices != nullptr) index[step.gather_axis] = indices[index[step.gather_axis]];
    const int64_t from = distance(index, step.source_strides) * step.element_size;
    for (int64_t byte = 0; byte < step.element_size; ++byte) {
      target[to + byte] = static_cast<uint8_t>(source[from + byte] ^ step.exclusive_or);
    }
  }
}

void reference_quantize(const Quantize&, const Memory&, Part) {}
void reference_dequantize(const Dequantize&, const Memory&, Part) {}

}  // namespace calib8::engine
