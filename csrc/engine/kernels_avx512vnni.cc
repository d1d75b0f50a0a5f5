// The kernels of avx512vnni.
#include "depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void fill_avx512vnni(KernelTable& table) { set_kernel<Depthwise, depthwise_avx512vnni>(table); }

}  // namespace calib8::engine
