// The kernels of avxvnni, encoded as AVX-512 does: the same sources, for machines that have vpdpbusd only so.
#pragma once

#include <cstddef>

// Fills the entries that the set has kernels of its own for; pointers to functions of type Kernel.
extern "C" void calib8_evex_kernels(void** table, size_t count);
