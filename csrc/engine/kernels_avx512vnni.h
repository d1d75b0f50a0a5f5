// The kernels that AVX-512 VNNI has of its own.
#pragma once

#include "kernels.h"

namespace calib8::engine {

void avx512vnni_conv(const Conv& step, const Memory& memory, Part part);
void avx512vnni_wide_conv(const WideConv& step, const Memory& memory, Part part);

}  // namespace calib8::engine
