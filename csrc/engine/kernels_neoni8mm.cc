// The kernels of neoni8mm.
#include "depthwise/depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void conv_neoni8mm(const Conv& step, const Memory& memory, Part part);

void fill_neoni8mm(KernelTable& table) {
  set_kernel<Conv, conv_neoni8mm>(table);
  set_kernel<Depthwise, depthwise_neoni8mm>(table);
}

}  // namespace calib8::engine
