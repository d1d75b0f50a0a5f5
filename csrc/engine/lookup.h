// y[i] = table[x[i]] over 256 entries: `look_up` of the instruction set that a file is compiled for. count is
// a multiple of 64.
#pragma once

#if defined(__AVX512BW__)
#include "lookup_avx512.h"
#elif defined(__aarch64__)
#include "lookup_neon.h"
#else
#include "lookup_avx2.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

inline void look_up(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  look_up_avx2(table, x, y, count);
}

}  // namespace
}  // namespace calib8::engine
#endif
