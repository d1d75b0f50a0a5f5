// Quantize, sixteen floats at a time.
#include "kernels.h"
#include "quantize_box.h"

namespace calib8::engine {

void fill_borders_avx512vnni(KernelTable& table) { set_kernel<Quantize, quantize>(table); }

}  // namespace calib8::engine
