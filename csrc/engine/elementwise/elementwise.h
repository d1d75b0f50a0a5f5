// Elementwise kernels of the instruction sets that have their own.
#pragma once

#include "kernels.h"

namespace calib8::engine {

#if defined(__x86_64__)
void fill_elementwise_avx2(KernelTable& table);
void fill_words_avx2(KernelTable& table);
void fill_elementwise_avx512vnni(KernelTable& table);
void fill_words_avx512vnni(KernelTable& table);
#endif
#if defined(__aarch64__)
void fill_elementwise_neon(KernelTable& table);
#endif

}  // namespace calib8::engine
