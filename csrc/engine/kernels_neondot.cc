// The kernels of neondot.
#include "kernels.h"

namespace calib8::engine {

void neondot_conv(const Conv& step, const Memory& memory, Part part);

void fill_neondot(KernelTable& table) { set_kernel<Conv, neondot_conv>(table); }

}  // namespace calib8::engine
