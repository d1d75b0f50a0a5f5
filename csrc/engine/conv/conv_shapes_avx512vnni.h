// What the files of AVX-512's convolutions hand to each other: a register tile, tiles that take turns, and
// tables of functions for them. Each file has the functions of one panel width: together they take a compiler
// with sanitizers twenty minutes.
//
// Plain data with external linkage, and no function that could become a weak symbol.
#pragma once

#include <cstdint>

#include "curve_lanes.h"

namespace calib8::engine {

// What a tile does with its sums. Float factors are below 1 and fixed shifts below 0: nothing leaves int32.
enum class Ending : int64_t {
  kSums,         // stores them, int32
  kFloat,        // rint(float32(acc) · factor), the zero point, the clamp
  kUnclamped,    // kFloat where the clamp is that of uint8
  kPlain,        // kUnclamped with zero point 0
  kSumLeft,      // kFloat, then FloatSum with a residual on its left side
  kSumRight,     // … on its right side
  kSplit,        // FixedRescale with SplitFactors
  kSplitSigned,  // where the nudge has a sign
  kSplitSumLeft,
  kSplitSumRight,
  kSingle,  // FixedRescale
  kDouble,
  kTwoSided,     // kFloat with other factors below 0
  kCurve,        // float32 factors, then a curve
  kWholeCurve,   // … whose segments are all of 16 bits
  kSplitSides,   // FixedRescale with SplitFactors, other ones below 0
  kSplitCurve,   // FixedRescale with SplitFactors, then a curve
  kSingleCurve,  // FixedRescale, then a curve
  kDoubleCurve,
  kSingleSides,  // FixedRescale with other factors below 0
  kDoubleSides,
};

// Constants of FixedRescale for 16 channels: even and odd channels apart, as vpmuldq takes them.
struct alignas(64) FixedLanes {
  int32_t multiplier[16], odd_multiplier[16];  // the latter in the even places
  int64_t round[8], odd_round[8];              // kSingle: half of what is shifted out
  int64_t right[8], odd_right[8];              // kSingle: odd ones stay in the upper half, 32 less
  int32_t half_right[16];                      // kDouble: right shift behind the product, minus 1
};

// Constants of a FloatSum behind a FloatRescale. The residual and the code are raw ones: stored − shift.
struct SumLanes {
  float lhs, rhs, fixed;
  float least, most;       // clamp of the code, minus its zero point
  float round, unrounded;  // v + round − unrounded is rint(v) + zero point − shift
  int32_t residual_shift;
};

struct Tile {
  const uint8_t* input;
  const int64_t* input_offsets;  // bytes, per pixel
  const int64_t* taps;           // bytes
  int64_t tap_count, quads;      // a tap is `quads` times four bytes deep
  const int8_t* weights;         // of the panel
  // Is fetched beforehand: a line a quad into the second-level cache; for a single pixel all that the next
  // panel reads, into the first.
  const int8_t* prefetch;
  const int32_t* bias;
  const int32_t* sums;  // of the products, 64 a pixel, where something else has multiplied; else null
  Ending ending;
  const float* factor;      // kFloat and its kin; kSplit and its kin: the high part
  const float* low_factor;  // kSplit and its kin, as nudge
  const float* nudge;
  const float* negative;      // kTwoSided, kSplitSides
  const float* negative_low;  // kSplitSides, as negative_nudge
  const float* negative_nudge;
  const CurveNumbers* curve;         // kCurve and its kin
  const FixedLanes* fixed;           // kSingle, kDouble and their kin: one per 16 channels
  const FixedLanes* negative_fixed;  // kSingleSides, kDoubleSides
  SumLanes sum;                      // with a residual
  const uint8_t* residual;
  const int64_t* residual_offsets;
  const uint8_t* table;  // applied to the codes, with VBMI; null for none
  bool plain;            // the clamp is that of uint8, and, but for kSplit, the zero point 0
  int16_t zero_point;    // added to what is rounded last; kSplit, kSplitSigned, kSplitSides: twice that and 1
  uint8_t low, high;
  void* output;
  const int64_t* output_offsets;  // elements, per pixel
  uint64_t channels;              // bit c: channel c is stored
};

constexpr int64_t kFlowQuads = 64;  // most products (times four) of a pixel and channel

// Tiles of a block one after the other. The offsets of the tile are those of the block's first pixel.
struct Flow {
  Tile tile;
  int64_t tiles;
  int64_t quads;                // of all taps
  int64_t indices[kFlowQuads];  // bytes, per quad
  int64_t ends[4];              // unit e of the codes follows quad ends[e] − 1
  int64_t taps;                 // rows of quads side by side
  int32_t bias[48];             // for PairShape, as the following
  float factor[48], low_factor[48], nudge[48], negative[48];
};

// Tiles of a panel width, by number of pixels; a number that has none of its own takes the next larger one.
using RunTile = void (*)(const Tile&);
struct TileSet {
  int64_t pixels;  // the largest
  RunTile run[11];
};

// All tiles of a block of `count` pixels. `paired`: of the last 16 channels of a panel half exist; null where
// the width has no such tiles.
using RunFlow = void (*)(Flow& flow, int64_t count);
struct FlowSet {
  RunFlow whole, paired;
};

// By channels of a panel.
const TileSet& conv_tiles16_avx512vnni();
const TileSet& conv_tiles32_avx512vnni();
const TileSet& conv_tiles48_avx512vnni();
const TileSet& conv_tiles64_avx512vnni();
const FlowSet& conv_flows16_avx512vnni();
const FlowSet& conv_flows32_avx512vnni();
const FlowSet& conv_flows48_avx512vnni();
const FlowSet& conv_flows64_avx512vnni();

}  // namespace calib8::engine
