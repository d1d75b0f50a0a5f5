// Quantize and Dequantize, four floats at a time.
#include "dequantize_box.h"
#include "kernels.h"
#include "quantize_box.h"

namespace calib8::engine {

void fill_borders_neon(KernelTable& table) {
  set_kernel<Quantize, quantize>(table);
  set_kernel<Dequantize, dequantize>(table);
}

}  // namespace calib8::engine
