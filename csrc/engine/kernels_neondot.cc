// The kernels of neondot.
#include "depthwise/depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void conv_neondot(const Conv& step, const Memory& memory, Part part);
void wide_conv_neondot(const WideConv& step, const Memory& memory, Part part);

void fill_neondot(KernelTable& table) {
  set_kernel<Conv, conv_neondot>(table);
  set_kernel<WideConv, wide_conv_neondot>(table);
  set_kernel<Depthwise, depthwise_neondot>(table);
}

}  // namespace calib8::engine
