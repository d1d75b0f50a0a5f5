// The kernels of avx512vnni.
#include "kernels.h"

namespace calib8::engine {

void fill_pools_avx512vnni(KernelTable& table);

void fill_avx512vnni(KernelTable& table) { fill_pools_avx512vnni(table); }

}  // namespace calib8::engine
