// Depthwise convolution with neon.
#include "depthwise_neon.h"

namespace calib8::engine {

void depthwise_neon(const Depthwise& step, const Memory& memory, Part part) {
  depthwise<16>(step, memory, part);
}

}  // namespace calib8::engine
