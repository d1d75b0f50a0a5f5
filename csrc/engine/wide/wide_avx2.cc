// Steps with 16-bit codes in AVX2.
#include "wide_kernels.h"

namespace calib8::engine {

void fill_wide_avx2(KernelTable& table) { fill_wide(table); }

}  // namespace calib8::engine
