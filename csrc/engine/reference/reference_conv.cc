// Convolution and fully connected layers in plain loops: what every other kernel of theirs must equal.
//
//   acc[p, o] = bias[o] + Σ_t Σ_k stored[input(p) + tap[t] + k] · w[o, t, k]
#include "filter.h"
#include "reference.h"
#include "rules.h"

namespace calib8::engine {

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
        const Filter filter = filter_of(step, memory, group, output);
        const int32_t acc = sum_of_products(step, taps, input, filter, bias[channel]);
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
