// The kernels of avxvnni.
#include "depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void fill_avxvnni(KernelTable& table) { set_kernel<Depthwise, depthwise_avxvnni>(table); }

}  // namespace calib8::engine
