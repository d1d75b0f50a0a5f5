// Elementwise kernels with AVX2 and FMA.
#include "elementwise.h"
#include "elementwise_kernels.h"

namespace calib8::engine {

void fill_elementwise_avx2(KernelTable& table) { fill_elementwise(table); }

}  // namespace calib8::engine
