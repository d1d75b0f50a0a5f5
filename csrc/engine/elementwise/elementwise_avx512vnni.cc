// Elementwise kernels with AVX-512.
#include "elementwise.h"
#include "elementwise_kernels.h"

namespace calib8::engine {

void fill_elementwise_avx512vnni(KernelTable& table) { fill_elementwise(table); }

}  // namespace calib8::engine
