// The kernels of avx2.
#include "elementwise.h"
#include "kernels.h"

namespace calib8::engine {

void fill_avx2(KernelTable& table) { fill_elementwise_avx2(table); }

}  // namespace calib8::engine
