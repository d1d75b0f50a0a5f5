// Depthwise convolution in plain loops: what every other kernel of it must equal.
//
//   acc[p, o] = bias[o] + Σ_t stored[input(p) + tap[t] + o / multiplier] · w[t, o]
#include "reference.h"
#include "rules.h"

namespace calib8::engine {

void reference_depthwise(const Depthwise& step, const Memory& memory, Part part) {
  const int64_t* taps = memory.constant<int64_t>(step.tap_offsets);
  const int8_t* weights = memory.constant<int8_t>(step.weights);
  const int32_t* bias = memory.constant<int32_t>(step.bias);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  const View& out = step.output;
  const Range pixels = share(part, out.pixels());
  for (int64_t pixel = pixels.begin; pixel < pixels.end; ++pixel) {
    const int64_t column = pixel % out.columns, row = pixel / out.columns % out.rows;
    const int64_t image = pixel / out.columns / out.rows;
    const uint8_t* input = memory.data<uint8_t>(step.input) +
                           step.input.at(image, row * step.row_step, column * step.column_step);
    for (int64_t channel = 0; channel < out.channels; ++channel) {
      auto sum = static_cast<uint32_t>(bias[channel]);  // wraps without harm, as in vectors
      for (int64_t t = 0; t < step.taps; ++t) {
        const int32_t code = input[taps[t] + channel / step.multiplier];
        sum += static_cast<uint32_t>(code * weights[t * step.padded_outputs + channel]);
      }
      const auto acc = static_cast<int32_t>(sum);
      const int64_t place = out.at(image, row, column) + channel;
      if (step.rescale.kind == Rescale::kNone) {
        memory.data<int32_t>(out)[place] = acc;
        continue;
      }
      const uint8_t code = layer_code(step, memory, acc, channel);
      memory.data<uint8_t>(out)[place] = table == nullptr ? code : table[code];
    }
  }
}

}  // namespace calib8::engine
