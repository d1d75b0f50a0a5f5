// Depthwise convolution with avx2.
#include "depthwise_x86.h"

namespace calib8::engine {

void depthwise_avx2(const Depthwise& step, const Memory& memory, Part part) {
  depthwise<32>(step, memory, part);
}

}  // namespace calib8::engine
