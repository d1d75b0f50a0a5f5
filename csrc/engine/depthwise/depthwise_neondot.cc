// Depthwise convolution with neondot.
#include "depthwise_neon.h"

namespace calib8::engine {

void depthwise_neondot(const Depthwise& step, const Memory& memory, Part part) {
  depthwise<16>(step, memory, part);
}

}  // namespace calib8::engine
