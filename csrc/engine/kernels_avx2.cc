// The kernels of avx2.
#include "kernels.h"

namespace calib8::engine {

void avx2_conv(const Conv& step, const Memory& memory, Part part);

void fill_avx2(KernelTable& table) { set_kernel<Conv, avx2_conv>(table); }

}  // namespace calib8::engine
