// Depthwise convolution with avxvnni.
#include "depthwise_x86.h"

namespace calib8::engine {

void depthwise_avxvnni(const Depthwise& step, const Memory& memory, Part part) {
  depthwise<32>(step, memory, part);
}

}  // namespace calib8::engine
