// One register tile of a convolution, from its sums to codes in memory.
//
// Everything has internal linkage.
#pragma once

#include "conv_steps_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <int width>
[[gnu::always_inline]] inline void store_codes(uint8_t* target, __m512i codes, uint64_t channels) {
  constexpr uint64_t kAll = width == 4 ? ~uint64_t{0} : (uint64_t{1} << (16 * width % 64)) - 1;
  if (width == 3 || channels != kAll) {
    _mm512_mask_storeu_epi8(target, channels, codes);
  } else if constexpr (width == 4) {
    _mm512_storeu_si512(target, codes);
  } else if constexpr (width == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_castsi512_si256(codes));
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm512_castsi512_si128(codes));
  }
}

// Codes of every pixel in memory: pixel by pixel, so that the first ones leave while others are computed.
template <class Steps, Shift kind, bool clamped, int mr, int width>
[[gnu::always_inline]] inline void store_rows(const Tile& tile, const __m512i (&acc)[mr][width]) {
  const Steps steps(tile);
  const auto code_of = words_of<Steps, kind>(tile);
  const __m512i low = _mm512_set1_epi8(static_cast<char>(tile.low));
  const __m512i high = _mm512_set1_epi8(static_cast<char>(tile.high));
  auto* output = static_cast<uint8_t*>(tile.output);
  repeat<mr>([&](auto i) CALIB8_INLINE {
    __m512i row[width];
    repeat<width>([&](auto j) CALIB8_INLINE { row[j] = steps(acc[i][j], i, j); });
    __m512i codes = packed_codes(row, code_of);
    if (clamped) codes = _mm512_min_epu8(_mm512_max_epu8(codes, low), high);
    store_codes<width>(output + tile.output_offsets[i], through_table(tile, codes), tile.channels);
  });
}

template <int mr, int width>
[[gnu::always_inline]] inline void store_sums(const Tile& tile, const __m512i (&acc)[mr][width]) {
  auto* output = static_cast<int32_t*>(tile.output);
  repeat<mr>([&](auto i) CALIB8_INLINE {
    int32_t* target = output + tile.output_offsets[i];
    repeat<width>([&](auto j) CALIB8_INLINE {
      _mm512_mask_storeu_epi32(target + 16 * j, static_cast<__mmask16>(tile.channels >> (16 * j)), acc[i][j]);
    });
  });
}

// FixedRescale in place: channels outside, pixels inside, so that the constants stay in registers.
template <__m512i (*multiplied)(__m512i, const FixedLanes&), int mr, int width>
[[gnu::always_inline]] inline void multiply(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = multiplied(acc[i][j], tile.fixed[j]); });
  });
}

template <bool with_sign, int mr, int width>
[[gnu::always_inline]] inline void multiply_split(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    const SplitColumn split(tile.factor, tile.low_factor, tile.nudge, j);
    repeat<mr>([&](auto i) CALIB8_INLINE {
      acc[i][j] = multiplied_split<with_sign>(acc[i][j], split.high, split.low, split.nudge);
    });
  });
}

// … to the steps of a curve.
template <int mr, int width>
[[gnu::always_inline]] inline void split_to_steps(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    const SplitColumn split(tile.factor, tile.low_factor, tile.nudge, j);
    repeat<mr>([&](auto i)
                   CALIB8_INLINE { acc[i][j] = split_step(acc[i][j], split.high, split.low, split.nudge); });
  });
}

// … with other factors below 0.
template <int mr, int width>
[[gnu::always_inline]] inline void split_sides(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    const SplitColumn split(tile.factor, tile.low_factor, tile.nudge, j);
    const SplitColumn other(tile.negative, tile.negative_low, tile.negative_nudge, j);
    repeat<mr>([&](auto i) CALIB8_INLINE { acc[i][j] = multiplied_sides(acc[i][j], split, other); });
  });
}

// … in integers, by the constants of either side of 0.
template <__m512i (*multiplied)(__m512i, const FixedLanes&), int mr, int width>
[[gnu::always_inline]] inline void multiply_sides(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    repeat<mr>([&](auto i) CALIB8_INLINE {
      const __m512i above = multiplied(acc[i][j], tile.fixed[j]);
      const __m512i below = multiplied(acc[i][j], tile.negative_fixed[j]);
      acc[i][j] = _mm512_mask_mov_epi32(above, _mm512_movepi32_mask(acc[i][j]), below);
    });
  });
}

// float32 factors, to the steps of a curve: before its segments take the registers of the factors.
template <int mr, int width>
[[gnu::always_inline]] inline void float_to_steps(const Tile& tile, __m512i (&acc)[mr][width]) {
  repeat<width>([&](auto j) CALIB8_INLINE {
    const __m512 factor = _mm512_loadu_ps(tile.factor + 16 * j);
    repeat<mr>([&](auto i) CALIB8_INLINE {
      acc[i][j] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc[i][j]), factor));
    });
  });
}

// Codes of steps of a curve.
template <int mr, int width>
[[gnu::always_inline]] inline void store_curve(const Tile& tile, const __m512i (&acc)[mr][width]) {
  if (tile.curve->whole) return store_rows<WholeCurveNumbers<true>, Shift::kNone, true>(tile, acc);
  store_rows<WholeCurveNumbers<false>, Shift::kNone, true>(tile, acc);
}

template <int mr, int width>
__attribute__((noinline)) void run_tile(const Tile& tile) {
  __m512i acc[mr][width];
  accumulate<mr, width>(tile, acc);
  switch (tile.ending) {
    case Ending::kSums:
      return store_sums<mr, width>(tile, acc);
    case Ending::kFloat:
      return store_rows<FloatSteps<width>, Shift::kAdded, true>(tile, acc);
    case Ending::kUnclamped:
      return store_rows<FloatSteps<width>, Shift::kAdded, false>(tile, acc);
    case Ending::kPlain:
      return store_rows<FloatSteps<width>, Shift::kNone, false>(tile, acc);
    case Ending::kTwoSided:
      return store_rows<TwoSidedSteps<width>, Shift::kAdded, true>(tile, acc);
    case Ending::kCurve:
    case Ending::kWholeCurve:
      float_to_steps(tile, acc);
      return store_curve<mr, width>(tile, acc);
    case Ending::kSingleSides:
      multiply_sides<multiplied_single>(tile, acc);
      return store_rows<WholeSteps, Shift::kAdded, true>(tile, acc);
    case Ending::kDoubleSides:
      multiply_sides<multiplied_double>(tile, acc);
      return store_rows<WholeSteps, Shift::kAdded, true>(tile, acc);
    case Ending::kSingleCurve:
      multiply<multiplied_single>(tile, acc);
      return store_curve<mr, width>(tile, acc);
    case Ending::kDoubleCurve:
      multiply<multiplied_double>(tile, acc);
      return store_curve<mr, width>(tile, acc);
    case Ending::kSumLeft:
      return store_rows<SumSteps<width, false, false>, Shift::kAdded, true>(tile, acc);
    case Ending::kSumRight:
      return store_rows<SumSteps<width, true, false>, Shift::kAdded, true>(tile, acc);
    case Ending::kSplit:
      multiply_split<false>(tile, acc);
      return store_rows<WholeSteps, Shift::kHalved, true>(tile, acc);
    case Ending::kSplitSigned:
      multiply_split<true>(tile, acc);
      return store_rows<WholeSteps, Shift::kHalved, true>(tile, acc);
    case Ending::kSplitSides:
      split_sides(tile, acc);
      return store_rows<WholeSteps, Shift::kHalved, true>(tile, acc);
    case Ending::kSplitCurve:
      split_to_steps(tile, acc);
      return store_curve<mr, width>(tile, acc);
    case Ending::kSplitSumLeft:
      return store_rows<SumSteps<width, false, true>, Shift::kAdded, true>(tile, acc);
    case Ending::kSplitSumRight:
      return store_rows<SumSteps<width, true, true>, Shift::kAdded, true>(tile, acc);
    case Ending::kSingle:
      multiply<multiplied_single>(tile, acc);
      break;
    case Ending::kDouble:
      multiply<multiplied_double>(tile, acc);
      break;
  }
  if (tile.plain) return store_rows<WholeSteps, Shift::kNone, false>(tile, acc);
  store_rows<WholeSteps, Shift::kAdded, true>(tile, acc);
}

}  // namespace
}  // namespace calib8::engine
