// Pools, reductions, Softmax, LayerNorm, GroupNorm, linear Resize and MatMul for AVX-512.
#include "pools_kernels.h"

namespace calib8::engine {

void fill_pools_avx512vnni(KernelTable& table) { fill_pools(table); }

}  // namespace calib8::engine
