// The kernels of avx2.
#include "kernels.h"

namespace calib8::engine {

void fill_avx2(KernelTable&) {}

}  // namespace calib8::engine
