// The kernels of avx512vnni.
#include "kernels_avx512vnni.h"

namespace calib8::engine {

void fill_avx512vnni(KernelTable& table) { set_kernel<Conv, avx512vnni_conv>(table); }

}  // namespace calib8::engine
