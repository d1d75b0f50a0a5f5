// The kernels of avx512vnni.
#include "kernels.h"

namespace calib8::engine {

void fill_avx512vnni(KernelTable&) {}

}  // namespace calib8::engine
