// Vectors of the instruction set that a file is compiled for, under names that the kernels of pools and their
// like share:
//
//   Bytes    kWidth codes               Words    kWidth / 2 sums of codes, uint16
//   Ints     kLanes = kWidth / 4        Floats   kLanes
//
// Loads may read up to a vector beyond what is wanted, stores never write more than they are told.
#pragma once

#include "scratch.h"

#if defined(__AVX512BW__)
#include "pool_lanes_avx512.h"
#else
#include "pool_lanes_avx2.h"
#endif

namespace calib8::engine {
static_assert(kWidth <= kWidestVector && kLanes <= kMostLanes, "more than the scratch memory of their steps");
}  // namespace calib8::engine
