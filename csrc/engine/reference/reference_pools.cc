// Pools in plain loops: the largest code or the mean of the taps that lie inside the image.
#include <limits>

#include "pools/averages.h"
#include "pools/windows.h"
#include "reference.h"

namespace calib8::engine {
namespace {

// Calls visit(input index) for every tap of output pixel (row, column) inside the image, row by row.
template <class Visit>
void visit_taps(const View& input, const Window& window, int64_t image, int64_t row, int64_t column,
                Visit visit) {
  const WindowAxis rows = row_axis(window, input), columns = column_axis(window, input);
  const Range down = rows.inside(row), along = columns.inside(column);
  for (int64_t i = down.begin; i < down.end; ++i) {
    for (int64_t j = along.begin; j < along.end; ++j) {
      visit(
          input.at(image, rows.start(row) + i * rows.dilation, columns.start(column) + j * columns.dilation));
    }
  }
}

// Calls make(image, row, column) for the share of output pixels that falls to a part.
template <class Make>
void each_pixel(const View& output, Part part, Make make) {
  const Range pixels = share(part, output.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    make(pixel / output.columns / output.rows, pixel / output.columns % output.rows, pixel % output.columns);
  }
}

template <class Code, class Step>
void largest_codes(const Step& step, const Memory& memory, Part part) {
  const Code* input = memory.data<Code>(step.input);
  Code* output = memory.data<Code>(step.output);
  each_pixel(step.output, part, [&](int64_t image, int64_t row, int64_t column) {
    for (int64_t channel = 0; channel < step.output.channels; ++channel) {
      Code largest = std::numeric_limits<Code>::min();
      visit_taps(step.input, step.window, image, row, column, [&](int64_t place) {
        const Code code = input[place + channel];
        if (code > largest) largest = code;
      });
      output[step.output.at(image, row, column) + channel] = largest;
    }
  });
}

}  // namespace

void reference_max_pool(const MaxPool& step, const Memory& memory, Part part) {
  largest_codes<uint8_t>(step, memory, part);
}

void reference_wide_max_pool(const WideMaxPool& step, const Memory& memory, Part part) {
  largest_codes<int16_t>(step, memory, part);
}

void reference_average_pool(const AveragePool& step, const Memory& memory, Part part) {
  const uint8_t* input = memory.data<uint8_t>(step.input);
  uint8_t* output = memory.data<uint8_t>(step.output);
  const int64_t zero = step.input_zero + step.input_shift;
  each_pixel(step.output, part, [&](int64_t image, int64_t row, int64_t column) {
    const int64_t count = taps_that_count(step, row, column);
    for (int64_t channel = 0; channel < step.output.channels; ++channel) {
      int64_t total = 0;
      float real = 0;
      visit_taps(step.input, step.window, image, row, column, [&](int64_t place) {
        const int64_t code = input[place + channel] - zero;
        total += code;
        real += static_cast<float>(code) * static_cast<float>(step.input_scale);
      });
      output[step.output.at(image, row, column) + channel] =
          step.kind == AveragePool::kFloat ? average_of_reals(step, real, count)
                                           : average_of_codes(step, memory, total, count);
    }
  });
}

}  // namespace calib8::engine
