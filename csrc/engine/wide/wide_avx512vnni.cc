// Steps with 16-bit codes in AVX-512.
#include "wide_kernels.h"

namespace calib8::engine {

void fill_wide_avx512vnni(KernelTable& table) { fill_wide(table); }

}  // namespace calib8::engine
