// The kernels of avxvnni.
#include "kernels.h"

namespace calib8::engine {

void avxvnni_conv(const Conv& step, const Memory& memory, Part part);

void fill_avxvnni(KernelTable& table) { set_kernel<Conv, avxvnni_conv>(table); }

}  // namespace calib8::engine
