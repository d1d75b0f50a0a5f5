// Lengths and norms of rows of 16-bit codes in plain loops, one code after the other.
#include "pools/lengths.h"
#include "reference.h"

namespace calib8::engine {
namespace {

int64_t elements(const Axes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

int64_t distance(int64_t place, const Axes& sizes, const Axes& strides) {
  int64_t sum = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    sum += place % sizes[axis] * strides[axis];
    place /= sizes[axis];
  }
  return sum;
}

int64_t code_at(const void* first, int64_t place, int64_t size) {
  return size == 1 ? static_cast<const uint8_t*>(first)[place] : static_cast<const int16_t*>(first)[place];
}

void put_code(void* first, int64_t place, int64_t size, int64_t code) {
  if (size == 1) {
    static_cast<uint8_t*>(first)[place] = static_cast<uint8_t>(code);
  } else {
    static_cast<int16_t*>(first)[place] = static_cast<int16_t>(code);
  }
}

void norm_row(const WideLayerNorm& step, const Memory& memory, const void* input, int64_t from, void* output,
              int64_t to) {
  const LayerNorm& norm = step.norm;
  const int64_t n = norm.input.channels, centre = step.centred != 0 ? 0 : norm.centre;
  const auto code = [&](int64_t i) { return code_at(input, from + i, step.input_size) - centre; };
  int64_t sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += step.centred != 0 ? code(i) : 0, squares += code(i) * code(i);
  const int64_t spread = n * squares - sum * sum;
  const double root = std::sqrt(static_cast<double>(spread) + norm.epsilon);
  const float inverse = spread == 0 ? 0.0F : static_cast<float>(1.0 / root);
  for (int64_t i = 0; i < n; ++i) {
    const float scaled =
        static_cast<float>(n * code(i) - sum) * inverse * memory.constant<float>(norm.factor)[i];
    const float moved = scaled + memory.constant<float>(norm.offset)[i];
    const int64_t found = rounded_code(moved, norm.zero_point, norm.low, norm.high);
    put_code(output, to + i, step.output_size, found);
  }
}

}  // namespace

void reference_wide_length(const WideLength& step, const Memory& memory, Part part) {
  const Reduce& of = step.reduction;
  const void* source = memory.data<uint8_t>(of.source_buffer, of.source_offset);
  void* target = memory.data<uint8_t>(of.target_buffer, of.target_offset);
  const Range places = share(part, elements(of.outer_sizes));
  for (int64_t place = places.begin; place < places.end; ++place) {
    const int64_t first = distance(place, of.outer_sizes, of.outer_strides);
    int64_t squares = 0;
    for (int64_t i = 0; i < elements(of.inner_sizes); ++i) {
      const int64_t from = first + distance(i, of.inner_sizes, of.inner_strides);
      const int64_t centred = code_at(source, from, step.input_size) - of.zero_point;
      squares += centred * centred;
    }
    put_code(target, distance(place, of.outer_sizes, of.target_strides), step.output_size,
             length_steps(of.rescale, memory, squares));
  }
}

void reference_wide_layer_norm(const WideLayerNorm& step, const Memory& memory, Part part) {
  const View &in = step.norm.input, &out = step.norm.output;
  const void* input = memory.data<uint8_t>(in);
  void* output = memory.data<uint8_t>(out);
  const Range pixels = share(part, in.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t line = pixel / in.columns, column = pixel % in.columns;
    const int64_t image = line / in.rows, row = line % in.rows;
    norm_row(step, memory, input, in.at(image, row, column), output, out.at(image, row, column));
  }
}

}  // namespace calib8::engine
