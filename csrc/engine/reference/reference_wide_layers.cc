// Layers that read or write 16-bit codes, in plain loops: what every other kernel of theirs must equal.
#include "filter.h"
#include "reference.h"
#include "wide_rules.h"

namespace calib8::engine {
namespace {

// Writes a code at an element.
template <class Layer>
void put(const Layer& layer, const Memory& memory, int64_t output_size, int64_t place, int64_t code) {
  if (output_size == 1) {
    memory.data<uint8_t>(layer.output)[place] = static_cast<uint8_t>(code);
  } else {
    memory.data<int16_t>(layer.output)[place] = static_cast<int16_t>(code);
  }
}

template <class Item>
void conv(const WideConv& step, const Memory& memory, Part part) {
  const Conv& layer = step.layer;
  const int64_t* taps = memory.constant<int64_t>(layer.tap_offsets);
  const int32_t* bias = memory.constant<int32_t>(layer.bias);
  const View& out = layer.output;
  const Range pixels = share(part, out.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t column = pixel % out.columns, row = pixel / out.columns % out.rows;
    const int64_t image = pixel / out.columns / out.rows;
    for (int64_t group = 0; group < layer.groups; ++group) {
      const Item* input = memory.data<Item>(layer.input) + group * layer.group_channels +
                          layer.input.at(image, row * layer.row_step, column * layer.column_step);
      for (int64_t output = 0; output < layer.outputs; ++output) {
        const int64_t channel = group * layer.padded_outputs + output;
        const Filter filter = filter_of(layer, memory, group, output);
        const int32_t acc = sum_of_products(layer, taps, input, filter, bias[channel]);
        const int64_t code =
            finished(layer.rescale, layer.activation, step.output_size, memory, acc, channel);
        put(layer, memory, step.output_size, out.at(image, row, column) + group * layer.outputs + output,
            code);
      }
    }
  }
}

template <class Item>
void depthwise(const WideDepthwise& step, const Memory& memory, Part part) {
  const Depthwise& layer = step.layer;
  const int64_t* taps = memory.constant<int64_t>(layer.tap_offsets);
  const int8_t* weights = memory.constant<int8_t>(layer.weights);
  const int32_t* bias = memory.constant<int32_t>(layer.bias);
  const View& out = layer.output;
  const Range pixels = share(part, out.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t column = pixel % out.columns, row = pixel / out.columns % out.rows;
    const int64_t image = pixel / out.columns / out.rows;
    const Item* input = memory.data<Item>(layer.input) +
                        layer.input.at(image, row * layer.row_step, column * layer.column_step);
    for (int64_t channel = 0; channel < out.channels; ++channel) {
      auto sum = static_cast<uint32_t>(bias[channel]);  // wraps without harm
      for (int64_t t = 0; t < layer.taps; ++t) {
        const int32_t code = input[taps[t] + channel / layer.multiplier];
        sum += static_cast<uint32_t>(code * weights[t * layer.padded_outputs + channel]);
      }
      const auto acc = static_cast<int32_t>(sum);
      const int64_t code = finished(layer.rescale, layer.activation, step.output_size, memory, acc, channel);
      put(layer, memory, step.output_size, out.at(image, row, column) + channel, code);
    }
  }
}

}  // namespace

void reference_wide_conv(const WideConv& step, const Memory& memory, Part part) {
  step.input_size == 1 ? conv<uint8_t>(step, memory, part) : conv<int16_t>(step, memory, part);
}

void reference_wide_depthwise(const WideDepthwise& step, const Memory& memory, Part part) {
  step.input_size == 1 ? depthwise<uint8_t>(step, memory, part) : depthwise<int16_t>(step, memory, part);
}

}  // namespace calib8::engine
