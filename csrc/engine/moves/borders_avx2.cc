// Quantize and Dequantize, eight floats at a time.
#include "dequantize_box.h"
#include "kernels.h"
#include "quantize_box.h"

namespace calib8::engine {

void fill_borders_avx2(KernelTable& table) {
  set_kernel<Quantize, quantize>(table);
  set_kernel<Dequantize, dequantize>(table);
}

}  // namespace calib8::engine
