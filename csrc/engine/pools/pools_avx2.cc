// Pools, reductions, Softmax, LayerNorm, GroupNorm, linear Resize and MatMul for AVX2.
#include "pools_kernels.h"

namespace calib8::engine {

void fill_pools_avx2(KernelTable& table) { fill_pools(table); }

}  // namespace calib8::engine
