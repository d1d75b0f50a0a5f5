// Quads of codes and weights: rows interleaved, dot products of four taps.
//
// Unpacking the bytes of four taps puts the channels of 16 bytes ("a lane") into four vectors of sums
// ("quarters"): quarter i holds, in lane l, the sums of channels 16·l + 4·i … 16·l + 4·i + 3. Packing undoes
// that order. Everything here has internal linkage, for each instruction set compiles its own.
#pragma once

#if defined(__aarch64__)
#include "depthwise_lanes_neon.h"
#else
#include "depthwise_lanes_x86.h"
#endif
