// The kernels of avx512vnni.
#include "elementwise.h"
#include "kernels.h"

namespace calib8::engine {

void fill_avx512vnni(KernelTable& table) { fill_elementwise_avx512vnni(table); }

}  // namespace calib8::engine
