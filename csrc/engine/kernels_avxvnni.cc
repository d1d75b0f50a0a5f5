// The kernels of avxvnni.
#include "depthwise/depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void avxvnni_conv(const Conv& step, const Memory& memory, Part part);
void avxvnni_wide_conv(const WideConv& step, const Memory& memory, Part part);
void fill_wide_avxvnni(KernelTable& table);

void fill_avxvnni(KernelTable& table) {
  set_kernel<Conv, avxvnni_conv>(table);
  set_kernel<Depthwise, depthwise_avxvnni>(table);
  set_kernel<WideConv, avxvnni_wide_conv>(table);
  fill_wide_avxvnni(table);
}

}  // namespace calib8::engine
