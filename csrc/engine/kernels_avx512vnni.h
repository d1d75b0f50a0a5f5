// The kernels that AVX-512 VNNI has of its own.
#pragma once

#include "kernels.h"

namespace calib8::engine {

void conv_avx512vnni(const Conv& step, const Memory& memory, Part part);
void wide_conv_avx512vnni(const WideConv& step, const Memory& memory, Part part);

}  // namespace calib8::engine
