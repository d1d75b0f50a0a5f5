// The roof: how many products of 8-bit codes a processor adds up per second when it does nothing else.
#pragma once

#include <cstdint>

#include "../kernels.h"

namespace calib8::engine {

// A loop over registers or a first-level cache: nothing waits for memory, and enough sums run side by side to
// hide the latency of each. Returns the multiply-accumulates done, a multiple of `rounds`.
using PeakLoop = int64_t (*)(int64_t rounds);

int64_t peak_loop_reference(int64_t rounds);
#if defined(__x86_64__)
int64_t peak_loop_avx2(int64_t rounds);  // where pairs of products cannot saturate
int64_t peak_loop_avxvnni(int64_t rounds);
int64_t peak_loop_avx512vnni(int64_t rounds);
int64_t peak_loop_amx(int64_t rounds);
#endif
#if defined(__aarch64__)
int64_t peak_loop_neon(int64_t rounds);  // where no weight is −128
int64_t peak_loop_neondot(int64_t rounds);
int64_t peak_loop_neoni8mm(int64_t rounds);
#endif

// Multiply-accumulates per second, in 10⁹, of `threads` threads together: the best of many short bursts that
// all threads begin at once. Takes some tens of milliseconds.
double peak_gmacs(const Isa& isa, int threads);

// Multiply-accumulates of one round of the loop that measures a set.
int64_t peak_products(const Isa& isa);

}  // namespace calib8::engine
