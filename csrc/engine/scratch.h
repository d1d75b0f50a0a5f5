// What kernels keep in a thread's own memory (`Memory::scratch`), and how much of it a step may take.
//
// scratch_bytes(step) is the most that the kernels of any instruction set take, so that a plan needs the same
// memory wherever it runs. The kernels use these constants and structs themselves. Steps that passed
// check_step are small enough for these products.
//
// Everything here has internal linkage: files of several instruction sets include it.
#pragma once

#include <cstdint>

#include "steps.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kWidestVector = 64;              // bytes
constexpr int64_t kMostLanes = kWidestVector / 4;  // of int32 or float32

constexpr int64_t whole_vectors(int64_t bytes) {
  return (bytes + kWidestVector - 1) / kWidestVector * kWidestVector;
}

// Conv in short vectors (conv_tiles.h): this, then the rows of a block.
constexpr int64_t kTileRows = 6;                   // pixels of the largest tile
constexpr int64_t kMostPixels = 96;                // of a block
constexpr int64_t kStripChannels = 16;             // that are summed together
constexpr int64_t kCellBytes = 2;                  // of an activation, at most
constexpr int64_t kRowSlack = 32;                  // cells may be written so many bytes beyond a row
constexpr int64_t kSectionQuads = 128;             // fours of depth whose weights are widened together
constexpr int64_t kBlockBytes = int64_t{1} << 18;  // rows of a block, unless 6 pixels need more
struct alignas(64) TileScratch {
  int32_t sums[kMostPixels * kStripChannels];  // of a block, or of one panel
  int16_t section[kSectionQuads * 4 * kStripChannels];
};

// An odd number of cache lines, so that the rows of a tile do not meet in the same sets of the cache.
inline int64_t tile_row_bytes(const Conv& step) {
  const int64_t lines = (step.taps * step.depth * kCellBytes + kRowSlack + 63) / 64;
  return (lines | 1) * 64;
}

// How many pixels to take together.
inline int64_t tile_block_pixels(const Conv& step) {
  const int64_t fit = kBlockBytes / tile_row_bytes(step) / kTileRows * kTileRows;
  return fit < kTileRows ? kTileRows : fit > kMostPixels ? kMostPixels : fit;
}

// Conv with AVX-512 VNNI (conv_panel_avx512vnni.h).
constexpr int64_t kBlockPixels = 512;  // most pixels of a block
constexpr int64_t kTilePixels = 16;    // more than any tile has
constexpr int64_t kRowBytes = 64;      // codes of a pixel in a panel
struct alignas(64) PanelScratch {
  uint8_t codes[kTilePixels * kRowBytes];
  int32_t sums[kTilePixels * kRowBytes];
  int64_t inputs[kBlockPixels + kTilePixels];  // offsets of the pixels of a block, the last one repeated
  int64_t outputs[kBlockPixels + kTilePixels];
  int64_t residuals[kBlockPixels + kTilePixels];
};

// Conv in tiles of 16 pixels (conv_amx.cc): this, then the codes of a block, section by section of its depth.
constexpr int64_t kTilesAtOnce = 2;                  // tiles of pixels that are multiplied together
constexpr int64_t kSectionBytes = 64;                // of the codes of a pixel's windows: what a tile takes
constexpr int64_t kCodesOfBlock = int64_t{1} << 18;  // bytes of a block, unless two tiles need more
struct CodeRun {
  int64_t source, target;  // bytes from the pixel; from its row of the first section
  uint64_t lanes;          // bit b: byte b belongs to it
};
constexpr int64_t kMostRuns = 512;
struct PlacedTile {
  const uint8_t* codes;
  int64_t distance;  // bytes from pixel to pixel where they lie in the input; else 0
};
struct alignas(64) AmxScratch {
  PanelScratch panel;
  int32_t sums[kTilesAtOnce * kTilePixels * kRowBytes];
  PlacedTile tiles[kBlockPixels / kTilePixels];
  CodeRun runs[kMostRuns];
};
inline int64_t code_sections(const Conv& step) {
  return (step.taps * step.depth + kSectionBytes - 1) / kSectionBytes;
}
inline int64_t tiles_of_block(const Conv& step) {
  const int64_t pixels = step.output.pixels();
  if (pixels < kTilePixels || code_sections(step) > kMostRuns) return 0;
  const int64_t tile = code_sections(step) * kSectionBytes * kTilePixels;
  const int64_t fit = kCodesOfBlock / tile / kTilesAtOnce * kTilesAtOnce;
  const int64_t all = (pixels + kTilePixels - 1) / kTilePixels, most = kBlockPixels / kTilePixels;
  const int64_t wanted = all < most ? all : most, least = fit < kTilesAtOnce ? kTilesAtOnce : fit;
  return wanted < least ? wanted : least;
}

inline int64_t scratch_bytes(const Conv& step) {
  constexpr auto kTile = static_cast<int64_t>(sizeof(TileScratch));
  constexpr auto kAmx = static_cast<int64_t>(sizeof(AmxScratch));
  const int64_t tiles = kTile + tile_block_pixels(step) * tile_row_bytes(step);
  const int64_t amx = kAmx + tiles_of_block(step) * kTilePixels * kSectionBytes * code_sections(step);
  return tiles > amx ? tiles : amx;
}

// WideConv: as Conv in short vectors, or with AVX-512 (wide_conv_avx512vnni.cc) this.
constexpr int64_t kWidePixels = 120;      // of a block: whole tiles of 6, 8 and 10
constexpr int64_t kWideFlowPixels = 480;  // of a block of a shallow layer, which keeps no sums
constexpr int64_t kWideUnits = 2 * kSectionQuads;
struct alignas(64) WideConvScratch {
  int32_t sums[(kWidePixels + kTilePixels) * 64];
  int16_t section[kSectionQuads * 4 * 64];
  int64_t indices[kWideUnits];  // bytes from a pixel to four bytes of its window
  int64_t inputs[kWideFlowPixels + kTilePixels];
  int64_t outputs[kWideFlowPixels + kTilePixels];
};
inline int64_t scratch_bytes(const WideConv& step) {
  constexpr auto kWide = static_cast<int64_t>(sizeof(WideConvScratch));
  const int64_t tiles = scratch_bytes(step.layer);
  return tiles > kWide ? tiles : kWide;
}

// WideDepthwise (wide_depthwise.h): sums of some pixels of a row, then pairs of codes of as many columns
// (wide_five.h), then pairs of weights of a block of channels.
constexpr int64_t kWideColumns = 64;
constexpr int64_t kWideBlock = kWidestVector;  // channels
constexpr int64_t kWideSums = kWideColumns * kWideBlock * 4;
constexpr int64_t kWidePairs = (kWideColumns + 4) * 6 * 32;
inline int64_t scratch_bytes(const WideDepthwise& step) {
  return kWideSums + kWidePairs + step.layer.taps / 2 * kWideBlock * 4;
}

// Depthwise: the weights of a block of channels, four taps to a quad, or for 5×5 (depthwise_five.h) two
// quads of codes for every column of a strip.
constexpr int64_t kQuadBytes = 4 * kWidestVector;
constexpr int64_t kFiveColumns = 32;
inline int64_t scratch_bytes(const Depthwise& step) {
  constexpr int64_t kFive = 2 * kFiveColumns * kQuadBytes;
  const int64_t weights = step.taps / 4 * kQuadBytes;
  return weights > kFive ? weights : kFive;
}

// MatMul (mat_mul.h): columns of the right matrix and rows of the left one, pairs of int16.
constexpr int64_t kMostPanelColumns = 2 * kMostLanes, kTall = 4;
// … or with AMX (mat_mul_amx.cc) this, then a panel in quads of depth, whole sections of it.
constexpr int64_t kAmxColumns = 64;
struct alignas(64) AmxMatMulScratch {
  int32_t sums[kTilesAtOnce * kTilePixels * kAmxColumns], terms[kAmxColumns];
};
inline int64_t scratch_bytes(const MatMul& step) {
  constexpr auto kAmx = static_cast<int64_t>(sizeof(AmxMatMulScratch));
  const int64_t pairs = (step.depth + 1) / 2 * 4 * (kMostPanelColumns + kTall);
  const int64_t amx = kAmx + (step.depth + 63) / 64 * 64 * kAmxColumns;
  return pairs > amx ? pairs : amx;
}

// MaxPool (max_pool.h): the largest codes of every input column.
inline int64_t scratch_bytes(const MaxPool& step) { return step.input.columns * kWidestVector; }
inline int64_t scratch_bytes(const WideMaxPool& step) { return step.input.columns * kWidestVector; }

// AveragePool (average_pool.h): sums of the codes of every input column, uint16, and for every output column
// the part of its window that lies in the image.
struct AverageColumns {
  int32_t place, taps;   // first input column and how many
  int32_t count;         // of the whole window: what its sum is divided by
  int32_t zeros;         // Σ z_x over its taps, stored domain
  float factor, offset;  // FloatMean: stored code ≈ Σ · factor + offset
};
inline int64_t scratch_bytes(const AveragePool& step) {
  constexpr auto kWindow = static_cast<int64_t>(sizeof(AverageColumns));
  return step.input.columns * 2 * whole_vectors(step.input.channels) + step.output.columns * kWindow;
}

// Reduce (reduce.h) of one image to the means of its channels: sums over the pixels of a part, int32.
inline bool sums_pixels(const Reduce& step) {
  bool one = step.kind == Reduce::kMean && step.outer_strides[kAxes - 1] == 1;
  for (int axis = 0; axis < kAxes - 1; ++axis) one = one && step.outer_sizes[axis] == 1;
  return one && step.target_strides[kAxes - 1] == 1;
}
inline int64_t scratch_bytes(const Reduce& step) {
  return sums_pixels(step) ? whole_vectors(4 * step.outer_sizes[kAxes - 1]) + kWidestVector : 0;
}

// ResizeToFloat (resize_to_float.h): of every output column where its neighbours are and the weights of four
// corners, of two input rows all channels as float32.
constexpr int64_t kColumnTables = 8;
inline int64_t scratch_bytes(const ResizeToFloat& step) {
  const int64_t columns = whole_vectors(4 * step.columns), row = whole_vectors(4 * step.input.columns);
  return kColumnTables * columns + 2 * step.input.channels * (row + kWidestVector);
}

// Softmax (softmax.h): exponentials of a few rows, float32.
constexpr int64_t kRowsAtOnce = 4;  // their sums, each added one by one, hide each other's latency
inline int64_t scratch_bytes(const Softmax& step) { return kRowsAtOnce * whole_vectors(4 * step.classes); }

// GroupNorm (group_norm.h): of every channel, and of as many behind the last one as vectors may reach, Σq and
// Σq², then three numbers of 32 bits.
struct GroupScratch {
  int64_t places;
  int64_t *sums, *squares;
  uint8_t* rest;

  static int64_t places_of(const GroupNorm& step) {
    return whole_vectors(step.input.channels) + kWidestVector;
  }
  GroupScratch(const GroupNorm& step, uint8_t* memory)
      : places(places_of(step)),
        sums(reinterpret_cast<int64_t*>(memory)),
        squares(sums + places),
        rest(memory + 16 * places) {}
  template <class T>
  T* numbers(int64_t which) const {
    return reinterpret_cast<T*>(rest) + which * places;
  }
};
inline int64_t scratch_bytes(const GroupNorm& step) { return 28 * GroupScratch::places_of(step); }

// Arrays one behind the other in the memory of a thread; without memory they are only counted.
class SharesOfScratch {
 public:
  int64_t bytes() const { return used_; }

 protected:
  template <class T>
  T* take(uint8_t* memory, int64_t count) {
    const int64_t from = used_;
    used_ += whole_vectors(count * static_cast<int64_t>(sizeof(T)));
    return memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + from);
  }

 private:
  int64_t used_ = 0;
};

// Recurrent (recurrent/): samples that are taken through all steps together, and as many of their x_t as are
// multiplied at once.
constexpr int64_t kCellSamples = 4, kCellRows = 24;
struct CellScratch : SharesOfScratch {
  int64_t row_bytes, state_bytes, lanes;  // of codes of x, of codes of h; numbers of all gates
  uint8_t *inputs, *states;               // codes [kCellRows], [kCellSamples]
  float* scales;                          // of the codes of x
  float* sums;                            // u of the formulas: [kCellRows][blocks][gates][16]
  float *h, *c, *other, *more;            // [kCellSamples][blocks · 16]; z and r·h of a GRU
  float* row;                             // a copy of a row that is to be coded

  static int64_t bytes_of(const Recurrent& step) { return CellScratch(step, nullptr).bytes(); }
  CellScratch(const Recurrent& step, uint8_t* memory)
      : row_bytes(whole_vectors(step.inputs)),
        state_bytes(whole_vectors(step.units)),
        lanes(step.lanes()),
        units_(step.blocks() * Recurrent::kBlock),
        longest_(step.inputs > step.units ? step.inputs : step.units) {
    inputs = take<uint8_t>(memory, kCellRows * row_bytes);
    states = take<uint8_t>(memory, kCellSamples * state_bytes);
    scales = take<float>(memory, kCellRows);
    sums = take<float>(memory, kCellRows * lanes);
    h = take<float>(memory, kCellSamples * units_);
    c = take<float>(memory, kCellSamples * units_);
    other = take<float>(memory, kCellSamples * units_);
    more = take<float>(memory, kCellSamples * units_);
    row = take<float>(memory, longest_ + kMostLanes);
  }
  int64_t units() const { return units_; }  // with those that fill the last block

 private:
  int64_t units_, longest_;
};
inline int64_t scratch_bytes(const Recurrent& step) { return CellScratch::bytes_of(step); }

// IntegerLstm (recurrent/): likewise, with numbers of 16 bits.
struct IntegerCellScratch : SharesOfScratch {
  int64_t row_bytes, state_bytes, hidden_bytes, words;
  uint8_t *inputs, *states, *hidden;  // stored codes [kCellRows], [kCellSamples], [kCellSamples]
  int16_t* sums;                      // of x: [kCellRows][kGates][words]
  int16_t *gates, *c, *tangent;       // [kCellSamples][kGates][words], [kCellSamples][words], [words]

  static int64_t bytes_of(const IntegerLstm& step) { return IntegerCellScratch(step, nullptr).bytes(); }
  IntegerCellScratch(const IntegerLstm& step, uint8_t* memory)
      : row_bytes(whole_vectors(step.inputs)),
        state_bytes(whole_vectors(step.width)),
        hidden_bytes(whole_vectors(step.units)),
        words(step.words()) {
    inputs = take<uint8_t>(memory, kCellRows * row_bytes);
    states = take<uint8_t>(memory, kCellSamples * state_bytes);
    hidden = take<uint8_t>(memory, kCellSamples * hidden_bytes);
    sums = take<int16_t>(memory, kCellRows * IntegerLstm::kGates * words);
    gates = take<int16_t>(memory, kCellSamples * IntegerLstm::kGates * words);
    c = take<int16_t>(memory, kCellSamples * words);
    tangent = take<int16_t>(memory, words);
  }
  int16_t* sum_of(int64_t row, int64_t gate) const {
    return sums + (row * IntegerLstm::kGates + gate) * words;
  }
  int16_t* gate_of(int64_t sample, int64_t gate) const {
    return gates + (sample * IntegerLstm::kGates + gate) * words;
  }
};
inline int64_t scratch_bytes(const IntegerLstm& step) { return IntegerCellScratch::bytes_of(step); }

// IntegerGru (recurrent/): likewise, h of 16 bits.
struct IntegerGruScratch : SharesOfScratch {
  int64_t row_bytes, state_bytes, words;
  uint8_t *inputs, *states, *reset;  // stored codes [kCellRows], of h and of r·h [kCellSamples]
  int16_t* sums;                     // of x: [kCellRows][kGates][words]
  int16_t *gates, *h;                // [kCellSamples][kGates][words], [kCellSamples][words]

  static int64_t bytes_of(const IntegerGru& step) { return IntegerGruScratch(step, nullptr).bytes(); }
  IntegerGruScratch(const IntegerGru& step, uint8_t* memory)
      : row_bytes(whole_vectors(step.inputs)), state_bytes(whole_vectors(step.units)), words(step.words()) {
    inputs = take<uint8_t>(memory, kCellRows * row_bytes);
    states = take<uint8_t>(memory, kCellSamples * state_bytes);
    reset = take<uint8_t>(memory, kCellSamples * state_bytes);
    sums = take<int16_t>(memory, kCellRows * IntegerGru::kGates * words);
    gates = take<int16_t>(memory, kCellSamples * IntegerGru::kGates * words);
    h = take<int16_t>(memory, kCellSamples * words);
  }
  int16_t* sum_of(int64_t row, int64_t gate) const {
    return sums + (row * IntegerGru::kGates + gate) * words;
  }
  int16_t* gate_of(int64_t sample, int64_t gate) const {
    return gates + (sample * IntegerGru::kGates + gate) * words;
  }
};
inline int64_t scratch_bytes(const IntegerGru& step) { return IntegerGruScratch::bytes_of(step); }

// All others.
template <class Step>
constexpr int64_t scratch_bytes(const Step&) {
  return 0;
}

}  // namespace
}  // namespace calib8::engine
