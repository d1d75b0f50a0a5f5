// The kernels of avx512vnni.
#include "depthwise.h"
#include "kernels_avx512vnni.h"

namespace calib8::engine {

void fill_avx512vnni(KernelTable& table) {
  set_kernel<Conv, avx512vnni_conv>(table);
  set_kernel<Depthwise, depthwise_avx512vnni>(table);
}

}  // namespace calib8::engine
