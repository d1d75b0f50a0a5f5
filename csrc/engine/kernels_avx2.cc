// The kernels of avx2.
#include "kernels.h"

namespace calib8::engine {

void fill_pools_avx2(KernelTable& table);

void fill_avx2(KernelTable& table) { fill_pools_avx2(table); }

}  // namespace calib8::engine
