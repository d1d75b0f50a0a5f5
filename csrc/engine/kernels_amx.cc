// The kernels of amx.
#include "kernels.h"

namespace calib8::engine {

void conv_amx(const Conv& step, const Memory& memory, Part part);
void mat_mul_amx(const MatMul& step, const Memory& memory, Part part);

void fill_amx(KernelTable& table) {
  set_kernel<Conv, conv_amx>(table);
  set_kernel<MatMul, mat_mul_amx>(table);
}

}  // namespace calib8::engine
