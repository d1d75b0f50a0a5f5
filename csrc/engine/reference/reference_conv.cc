// Convolution and fully connected layers in plain loops: what every other kernel of theirs must equal.
//
//   acc[p, o] = bias[o] + Σ_t Σ_k stored[input(p) + tap[t] + k] · w[o, t, k]
#include "reference.h"
#include "rules.h"

namespace calib8::engine {
namespace {

// Where the weights of channel `output` begin within a group, and how far it is from one group of four to the
// next.
struct Filter {
  const int8_t* weights;
  int64_t step;
};

Filter filter_of(const Conv& step, const Memory& memory, int64_t group, int64_t output) {
  const int32_t* widths = memory.constant<int32_t>(step.panel_widths);
  const int8_t* panel = memory.constant<int8_t>(step.weights) + group * step.weight_bytes;
  int64_t first = 0;
  for (; output >= first + *widths * 16; ++widths) {
    panel += step.taps * step.depth * *widths * 16;
    first += *widths * 16;
  }
  return {panel + (output - first) * 4, *widths * int64_t{64}};
}

int32_t sum_of_products(const Conv& step, const int64_t* taps, const uint8_t* input, Filter filter) {
  uint32_t acc = 0;  // wraps without harm: the whole sum fits int32
  for (int64_t t = 0; t < step.taps; ++t) {
    for (int64_t k = 0; k < step.depth; ++k) {
      const int8_t weight = filter.weights[(t * step.depth + k) / 4 * filter.step + k % 4];
      if (weight != 0) acc += static_cast<uint32_t>(int32_t{weight} * input[taps[t] + k]);
    }
  }
  return static_cast<int32_t>(acc);
}

}  // namespace

void reference_conv(const Conv& step, const Memory& memory, Part part) {
  const int64_t* taps = memory.constant<int64_t>(step.tap_offsets);
  const int32_t* bias = memory.constant<int32_t>(step.bias);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  const View& out = step.output;
  const Range pixels = share(part, out.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t column = pixel % out.columns, row = pixel / out.columns % out.rows;
    const int64_t image = pixel / out.columns / out.rows;
    for (int64_t group = 0; group < step.groups; ++group) {
      const uint8_t* input = memory.data<uint8_t>(step.input) + group * step.group_channels +
                             step.input.at(image, row * step.row_step, column * step.column_step);
      for (int64_t output = 0; output < step.outputs; ++output) {
        const int64_t channel = group * step.padded_outputs + output;
        const int32_t products = sum_of_products(step, taps, input, filter_of(step, memory, group, output));
        const auto acc =
            static_cast<int32_t>(static_cast<uint32_t>(bias[channel]) + static_cast<uint32_t>(products));
        const int64_t place = out.at(image, row, column) + group * step.outputs + output;
        if (step.rescale.kind == Rescale::kNone) {
          memory.data<int32_t>(out)[place] = acc;
          continue;
        }
        uint8_t code = layer_code(step, memory, acc, channel);
        if (step.sum.kind != SumRule::kNone) {
          const int64_t other = step.residual.at(image, row, column) + group * step.outputs + output;
          const uint8_t residual = memory.data<uint8_t>(step.residual)[other];
          code =
              step.residual_right != 0 ? summed(step.sum, code, residual) : summed(step.sum, residual, code);
        }
        memory.data<uint8_t>(out)[place] = table == nullptr ? code : table[code];
      }
    }
  }
}

}  // namespace calib8::engine
