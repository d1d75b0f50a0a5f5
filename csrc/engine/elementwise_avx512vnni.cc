// Elementwise kernels with AVX-512.
#include "elementwise.h"
#include "elementwise_lanes_avx512.h"
#include "lookup_avx512.h"
// Behind the vectors that it is made of:
#include "elementwise_kernels.h"

namespace calib8::engine {

void fill_elementwise_avx512vnni(KernelTable& table) { set_elementwise(table); }

}  // namespace calib8::engine
