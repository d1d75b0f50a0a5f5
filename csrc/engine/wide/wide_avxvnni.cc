// Depthwise layers with 16-bit codes in AVX-VNNI; the other steps with such codes are those of AVX2.
#include "kernels.h"
#include "wide_depthwise.h"

namespace calib8::engine {

void fill_wide_avxvnni(KernelTable& table) { set_kernel<WideDepthwise, wide_depthwise>(table); }

}  // namespace calib8::engine
