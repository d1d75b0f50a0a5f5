// Pools, reductions, Softmax, LayerNorm, GroupNorm, linear Resize and MatMul for NEON.
#include "pools_kernels.h"

namespace calib8::engine {

void fill_pools_neon(KernelTable& table) { fill_pools(table); }

}  // namespace calib8::engine
