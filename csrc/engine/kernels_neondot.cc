// The kernels of neondot.
#include "kernels.h"

namespace calib8::engine {

void neondot_conv(const Conv& step, const Memory& memory, Part part);
void neondot_wide_conv(const WideConv& step, const Memory& memory, Part part);

void fill_neondot(KernelTable& table) {
  set_kernel<Conv, neondot_conv>(table);
  set_kernel<WideConv, neondot_wide_conv>(table);
}

}  // namespace calib8::engine
