// Depthwise convolution, one function per instruction set.
#pragma once

#include "steps.h"

namespace calib8::engine {

void depthwise_avx2(const Depthwise& step, const Memory& memory, Part part);
void depthwise_avxvnni(const Depthwise& step, const Memory& memory, Part part);
void depthwise_avx512vnni(const Depthwise& step, const Memory& memory, Part part);
void depthwise_neon(const Depthwise& step, const Memory& memory, Part part);
void depthwise_neondot(const Depthwise& step, const Memory& memory, Part part);
void depthwise_neoni8mm(const Depthwise& step, const Memory& memory, Part part);

}  // namespace calib8::engine
