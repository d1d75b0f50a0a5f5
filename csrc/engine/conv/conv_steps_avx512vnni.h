// Ways from the sums of a tile to its codes: what is computed of 16 sums, and of words when they are packed.
//
// Everything has internal linkage.
#pragma once

#include "conv_sums_avx512vnni.h"
#include "curve_lanes.h"
#include "lookup_avx512.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Ways from sums to whole numbers, 16 channels at a time: channels 16·j … of pixel i.
// Most have what is in these: words of 16 bits are whole numbers without their zero point.
struct PlainSteps {
  static constexpr bool kTwice = false, kCurve = false, kWhole = false, kSplit = false;
};

template <int width>
struct FloatSteps : PlainSteps {
  __m512 factor[width];

  explicit FloatSteps(const Tile& tile) {
    repeat<width>([&](auto j) CALIB8_INLINE { factor[j] = _mm512_loadu_ps(tile.factor + 16 * j); });
  }
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), factor[j]));
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

template <int width>
struct TwoSidedSteps : PlainSteps {
  __m512 factor[width];
  const float* negative;  // registers are for sums

  explicit TwoSidedSteps(const Tile& tile) : negative(tile.negative) {
    repeat<width>([&](auto j) CALIB8_INLINE { factor[j] = _mm512_loadu_ps(tile.factor + 16 * j); });
  }
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    const __m512 side = _mm512_mask_loadu_ps(factor[j], _mm512_movepi32_mask(acc), negative + 16 * j);
    return _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), side));
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

// The words are steps of a curve.
template <int width, bool whole>
struct CurveSteps : FloatSteps<width> {
  static constexpr bool kCurve = true, kWhole = whole;
  using FloatSteps<width>::FloatSteps;
};

// Twice the whole numbers, and 1 more for some.
template <int width, bool with_sign>
struct SplitSteps : PlainSteps {
  static constexpr bool kTwice = true;
  __m512 high[width], low[width], nudge[width];

  explicit SplitSteps(const Tile& tile) {
    repeat<width>([&](auto j) CALIB8_INLINE {
      high[j] = _mm512_loadu_ps(tile.factor + 16 * j);
      low[j] = _mm512_loadu_ps(tile.low_factor + 16 * j);
      nudge[j] = _mm512_loadu_ps(tile.nudge + 16 * j);
    });
  }
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    return multiplied_split<with_sign>(acc, high[j], low[j], nudge[j]);
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

// SplitFactors of 16 channels.
struct SplitColumn {
  __m512 high, low, nudge;
  [[gnu::always_inline]] SplitColumn(const float* highs, const float* lows, const float* nudges, int64_t j)
      : high(_mm512_loadu_ps(highs + 16 * j)),
        low(_mm512_loadu_ps(lows + 16 * j)),
        nudge(_mm512_loadu_ps(nudges + 16 * j)) {}
};

// … with other ones below 0.
[[gnu::always_inline]] inline __m512i multiplied_sides(__m512i acc, const SplitColumn& split,
                                                       const SplitColumn& other) {
  const __mmask16 below = _mm512_movepi32_mask(acc);
  return multiplied_split<false>(acc, _mm512_mask_blend_ps(below, split.high, other.high),
                                 _mm512_mask_blend_ps(below, split.low, other.low),
                                 _mm512_mask_blend_ps(below, split.nudge, other.nudge));
}

// Twice the whole numbers, by the factors of either side of 0.
struct SplitSidesSteps : PlainSteps {
  static constexpr bool kTwice = true;
  const Tile& tile;

  explicit SplitSidesSteps(const Tile& t) : tile(t) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    return multiplied_sides(acc, SplitColumn(tile.factor, tile.low_factor, tile.nudge, j),
                            SplitColumn(tile.negative, tile.negative_low, tile.negative_nudge, j));
  }
};

// Steps of a curve, by SplitFactors.
template <bool whole>
struct SplitCurveSteps : PlainSteps {
  static constexpr bool kCurve = true, kWhole = whole, kSplit = true;
  const Tile& tile;

  explicit SplitCurveSteps(const Tile& t) : tile(t) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    const SplitColumn split(tile.factor, tile.low_factor, tile.nudge, j);
    return split_step(acc, split.high, split.low, split.nudge);
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

template <int width, bool right, bool split>
struct SumSteps : PlainSteps {
  const Tile& tile;
  __m512 lhs, rhs, fixed, least, most, round, unrounded;
  __m512i shift;

  explicit SumSteps(const Tile& t)
      : tile(t),
        lhs(_mm512_set1_ps(t.sum.lhs)),
        rhs(_mm512_set1_ps(t.sum.rhs)),
        fixed(_mm512_set1_ps(t.sum.fixed)),
        least(_mm512_set1_ps(t.sum.least)),
        most(_mm512_set1_ps(t.sum.most)),
        round(_mm512_set1_ps(t.sum.round)),
        unrounded(_mm512_set1_ps(t.sum.unrounded)),
        shift(_mm512_set1_epi32(t.sum.residual_shift)) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int i, int j) const {
    const auto* place = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i] + 16 * j);
    return sum(acc, _mm_loadu_si128(place), j);
  }
  // 8 channels of pixel i and 8 of the next one.
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const {
    const auto* one = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i] + 16 * j);
    const auto* two = reinterpret_cast<const __m128i*>(tile.residual + tile.residual_offsets[i + 1] + 16 * j);
    return sum(acc, _mm_unpacklo_epi64(_mm_loadl_epi64(one), _mm_loadl_epi64(two)), j);
  }
  // The code of the layer, raw.
  CALIB8_INLINE __m512 code_of(__m512i acc, int j) const {
    const __m512 factor = _mm512_loadu_ps(tile.factor + 16 * j);
    if constexpr (split) {
      const __m512 low = _mm512_loadu_ps(tile.low_factor + 16 * j);
      const __m512 nudge = _mm512_loadu_ps(tile.nudge + 16 * j), half = _mm512_set1_ps(0.5F);
      const __m512 value =
          _mm512_fmadd_round_ps(split_product<true>(acc, factor, low, nudge), half, half, kDown);
      const __m512 inside = _mm512_min_ps(_mm512_max_ps(value, least), most);
      return _mm512_sub_ps(_mm512_add_round_ps(inside, round, kDown), unrounded);
    }
    const __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), factor);
    const __m512 inside = _mm512_min_ps(_mm512_max_ps(value, least), most);
    return _mm512_sub_ps(_mm512_add_ps(inside, round), unrounded);
  }
  CALIB8_INLINE __m512i sum(__m512i acc, __m128i residual, int j) const {
    const __m512 code = code_of(acc, j);
    const __m512i wide = _mm512_cvtepu8_epi32(residual);
    const __m512 other = _mm512_cvtepi32_ps(_mm512_sub_epi32(wide, shift));
    const __m512 left = right ? code : other, inner = right ? other : code;
    return _mm512_cvtps_epi32(_mm512_fmadd_ps(left, lhs, _mm512_fmadd_ps(inner, rhs, fixed)));
  }
};

// What `multiply` made of the sums before.
struct WholeSteps : PlainSteps {
  explicit WholeSteps(const Tile&) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int) const { return acc; }
};

// … as steps of a curve.
template <bool whole>
struct WholeCurveNumbers : WholeSteps {
  static constexpr bool kCurve = true, kWhole = whole;
  using WholeSteps::WholeSteps;
};

// What is added to whole numbers in 16 bits.
enum class Shift { kNone, kAdded, kHalved };

template <Shift kind>
struct ShiftedWords {
  __m512i shift;

  CALIB8_INLINE __m512i operator()(__m512i words) const {
    if (kind != Shift::kNone) words = _mm512_adds_epi16(words, shift);
    return kind == Shift::kHalved ? _mm512_srai_epi16(words, 1) : words;
  }
};

// What makes codes of the words of `Steps`.
template <class Steps, Shift kind>
[[gnu::always_inline]] inline auto words_of(const Tile& tile) {
  if constexpr (Steps::kCurve) {
    return CurveWords<Lanes<64>, Steps::kWhole>(*tile.curve);
  } else {
    return ShiftedWords<kind>{_mm512_set1_epi16(tile.zero_point)};
  }
}

// 16·width whole numbers as bytes side by side, of the codes that `code_of` makes of words.
template <class CodeOf, int width>
[[gnu::always_inline]] inline __m512i packed_codes(const __m512i (&steps)[width], const CodeOf& code_of) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i left = code_of(_mm512_packs_epi32(steps[0], steps[width > 1 ? 1 : 0]));
  __m512i right = left;
  if constexpr (width > 2) {
    right = code_of(_mm512_packs_epi32(steps[2], steps[width > 3 ? 3 : 2]));
  }
  return _mm512_permutexvar_epi32(order, _mm512_packus_epi16(left, right));
}

// What a tile stores of its codes.
[[gnu::always_inline]] inline __m512i through_table(const Tile& tile, __m512i codes) {
  return __builtin_expect(tile.table == nullptr, 1) ? codes : looked_up(tile.table, codes);
}

}  // namespace
}  // namespace calib8::engine
