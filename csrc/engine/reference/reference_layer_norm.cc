// LayerNorm in plain loops: the sums of a row, then one code after the other.
#include "pools/norms.h"
#include "reference.h"

namespace calib8::engine {

void reference_layer_norm(const LayerNorm& step, const Memory& memory, Part part) {
  each_norm_row(step, memory, part, [&](const uint8_t* codes, uint8_t* target) {
    int64_t sum = 0, squares = 0;
    for (int64_t i = 0; i < step.input.channels; ++i) {
      sum += codes[i];
      squares += codes[i] * codes[i];
    }
    const RowNorm row = row_norm(step, sum, squares);
    for (int64_t i = 0; i < step.input.channels; ++i) {
      target[i] = norm_code(step, memory, row, codes[i], i);
    }
  });
}

}  // namespace calib8::engine
