// Depthwise convolution with avx512vnni.
#include "depthwise_x86.h"

namespace calib8::engine {

void depthwise_avx512vnni(const Depthwise& step, const Memory& memory, Part part) {
  depthwise<64>(step, memory, part);
}

}  // namespace calib8::engine
