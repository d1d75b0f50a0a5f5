// The kernels of avxvnni.
#include "kernels.h"

namespace calib8::engine {

void fill_avxvnni(KernelTable&) {}

}  // namespace calib8::engine
