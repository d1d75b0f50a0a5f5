// The kernels of neon.
#include "depthwise/depthwise.h"
#include "elementwise/elementwise.h"
#include "kernels.h"

namespace calib8::engine {

void conv_neon(const Conv& step, const Memory& memory, Part part);
void wide_conv_neon(const WideConv& step, const Memory& memory, Part part);
void fill_moves_neon(KernelTable& table);
void fill_borders_neon(KernelTable& table);
void fill_pools_neon(KernelTable& table);

void fill_neon(KernelTable& table) {
  set_kernel<Conv, conv_neon>(table);
  set_kernel<WideConv, wide_conv_neon>(table);
  set_kernel<Depthwise, depthwise_neon>(table);
  fill_elementwise_neon(table);
  fill_moves_neon(table);
  fill_borders_neon(table);
  fill_pools_neon(table);
}

}  // namespace calib8::engine
