// What the files of AVX-512's shallow convolutions with 16-bit codes hand to each other. Each file has the
// functions of one panel width.
//
// Plain data with external linkage, and no function that could become a weak symbol.
#pragma once

#include "conv_shapes_avx512vnni.h"

namespace calib8::engine {

// Factors of FixedRescale as float64. Offsets of the output count codes of its width; weights are those of
// units of four bytes.
struct WideTile : Tile {
  const double* scaled;
  int32_t wide_zero_point, wide_low, wide_high;  // where codes have 16 bits; the ends twice, as words
};

constexpr int64_t kFlowUnits = 2 * kFlowQuads;

// As Flow. The arrays of channels are for PairShape.
struct WideFlow {
  WideTile tile;
  int64_t tiles;
  int64_t quads;           // units of all taps
  const int64_t* indices;  // bytes, per unit
  int64_t ends[4];
  int32_t bias[48];
  float factor[48];
  double scaled[48];
};

// By way of the sums: in floating point, or single rounding in fixed point.
using RunWideFlow = void (*)(WideFlow& flow, int64_t count);
struct WideFlowSet {
  RunWideFlow words_to_bytes[2], words_to_words[2], bytes_to_words[2];
};

// By channels of a panel; those of PairShape have half of the last 16.
const WideFlowSet& wide_flows16_avx512vnni();
const WideFlowSet& wide_flows32_avx512vnni();
const WideFlowSet& wide_flows48_avx512vnni();
const WideFlowSet& wide_flows64_avx512vnni();
const WideFlowSet& wide_flows24_avx512vnni();
const WideFlowSet& wide_flows40_avx512vnni();

}  // namespace calib8::engine
