// Elementwise kernels with NEON.
#include "elementwise.h"
#include "elementwise_kernels.h"

namespace calib8::engine {

void fill_elementwise_neon(KernelTable& table) { fill_elementwise(table); }

}  // namespace calib8::engine
