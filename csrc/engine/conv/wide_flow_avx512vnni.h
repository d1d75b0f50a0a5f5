// Shallow convolutions with 16-bit codes: tiles that take turns (conv_flow_avx512vnni.h), with products of
// words, or ends in words.
//
// Everything has internal linkage.
#pragma once

#include "conv_flow_avx512vnni.h"
#include "lanes_double.h"
#include "wide_flows_avx512vnni.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Products of two words of a pixel with those of a row of weights.
struct WordProducts {
  CALIB8_INLINE static void add(__m512i& acc, __m512i words, __m512i weights) {
    asm volatile("vpdpwssd %2,%1,%0" : "+v"(acc) : "v"(words), "v"(weights));
  }
};

// Constants that are loaded where they are used: registers are for sums, and a compiler that finds a constant
// keeps it.
[[gnu::always_inline]] inline __m512i fresh(const void* from) {
  __m512i result;
  asm volatile("vmovdqu64 (%1),%0" : "=v"(result) : "r"(from));
  return result;
}

// Fixed point with single rounding, as twice the whole numbers and 1 more for some.
template <int width>
struct HalvesSteps : PlainSteps {
  static constexpr bool kTwice = true;
  const double* scaled;

  explicit HalvesSteps(const Tile& tile) : scaled(static_cast<const WideTile&>(tile).scaled) {}
  CALIB8_INLINE __m512i operator()(__m512i acc, int, int j) const {
    Halves halves;
    halves.even = fresh(Halves::kEven);
    asm volatile("vbroadcastsd (%1),%0" : "=v"(halves.start) : "r"(&kHalvesStart));
    return halves(acc, scaled + 16 * j);
  }
  CALIB8_INLINE __m512i pair(__m512i acc, int i, int j) const { return (*this)(acc, i, j); }
};

// Numbers of `Steps` as words of 16-bit codes.
template <class Steps>
struct WordCodes16 {
  const WideTile& tile;

  CALIB8_INLINE __m512i number(__m512i steps, const WideTile& constants) const {
    if constexpr (Steps::kTwice) steps = _mm512_srai_epi32(steps, 1);
    return _mm512_add_epi32(steps, _mm512_set1_epi32(constants.wide_zero_point));
  }
  CALIB8_INLINE __m512i operator()(__m512i a, __m512i b) const {
    const auto& constants = static_cast<const WideTile&>(hidden(tile));
    const __m512i words = _mm512_packs_epi32(number(a, constants), number(b, constants));
    const __m512i low = _mm512_set1_epi32(constants.wide_low);
    const __m512i high = _mm512_set1_epi32(constants.wide_high);
    return _mm512_min_epi16(_mm512_max_epi16(words, low), high);
  }
};

// Ends of tiles in words, by `Steps`.
template <template <int> class Steps>
struct WordsEnd16 {
  template <int unit, int width>
  CALIB8_INLINE static void store(const Tile& origin, const Target& target,
                                  const WholeShape<width, WordProducts>& done, int64_t first) {
    store_whole<unit, width>(origin, target, done, first);
  }
  template <int unit, int width>
  CALIB8_INLINE static void store(const Tile& origin, const Target& target, const WholeShape<width>& done,
                                  int64_t first) {
    store_whole<unit, width>(origin, target, done, first);
  }
  template <int unit, int whole>
  CALIB8_INLINE static void store(const Tile& origin, const Target& target,
                                  const PairShape<whole, WordProducts>& done, int64_t first) {
    store_pair<unit, whole>(origin, target, done, first);
  }
  template <int unit, int whole>
  CALIB8_INLINE static void store(const Tile& origin, const Target& target, const PairShape<whole>& done,
                                  int64_t first) {
    store_pair<unit, whole>(origin, target, done, first);
  }

 private:
  CALIB8_INLINE static const WideTile& tile_of(const Tile& origin) {
    return static_cast<const WideTile&>(hidden(origin));
  }
  static constexpr int64_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7}, kOther[8] = {0, 2, 4, 6, 5, 7, 0, 0};
  CALIB8_INLINE static __m512i in_order(__m512i words) {
    return _mm512_permutexvar_epi64(fresh(kOrder), words);
  }
  CALIB8_INLINE static void put(int16_t* to, __m512i codes, uint64_t channels) {
    _mm512_mask_storeu_epi16(to, static_cast<__mmask32>(channels), codes);
  }

  template <int unit, int width, class Shape>
  CALIB8_INLINE static void store_whole(const Tile& origin, const Target& target, const Shape& done,
                                        int64_t first) {
    constexpr int kTogether = Shape::kTogether;
    const WideTile& tile = tile_of(origin);
    const WordCodes16<Steps<width>> codes{tile};
    const int64_t* offsets = target.offsets + first + unit * kTogether;
    auto* output = static_cast<int16_t*>(target.output);
    const auto step = [&](auto pixel, auto j) CALIB8_INLINE {
      constexpr int place = unit * kTogether + pixel;
      return Steps<width>(hidden(tile))(done.acc[place][j], static_cast<int>(first + place), j);
    };
    if constexpr (width == 1) {
      const auto mask = static_cast<__mmask16>(target.channels);
      repeat<kTogether / 2>([&](auto k) CALIB8_INLINE {
        constexpr int kFirst = 2 * k;
        const __m512i both =
            in_order(codes(step(Index<kFirst>{}, Index<0>{}), step(Index<kFirst + 1>{}, Index<0>{})));
        _mm256_mask_storeu_epi16(output + offsets[kFirst], mask, _mm512_castsi512_si256(both));
        _mm256_mask_storeu_epi16(output + offsets[kFirst + 1], mask, _mm512_extracti64x4_epi64(both, 1));
      });
    } else {
      repeat<kTogether>([&](auto pixel) CALIB8_INLINE {
        int16_t* to = output + offsets[pixel];
        put(to, in_order(codes(step(pixel, Index<0>{}), step(pixel, Index<1>{}))), target.channels);
        if constexpr (width > 2) {
          constexpr int kLast = width - 1;
          put(to + 32, in_order(codes(step(pixel, Index<2>{}), step(pixel, Index<kLast>{}))),
              width == 3 ? target.channels >> 32 & 0xffff : target.channels >> 32);
        }
      });
    }
  }

  template <int unit, int whole, class Shape>
  CALIB8_INLINE static void store_pair(const Tile& origin, const Target& target, const Shape& done,
                                       int64_t first) {
    const WideTile& tile = tile_of(origin);
    const WordCodes16<Steps<whole + 1>> codes{tile};
    const int a = static_cast<int>(first) + 2 * unit, b = a + 1;
    const int64_t* offsets = target.offsets + a;
    auto* output = static_cast<int16_t*>(target.output);
    const __m512i both = Steps<whole + 1>(hidden(tile)).pair(done.shared[unit], a, whole);
    const auto step = [&](auto pixel, auto j) CALIB8_INLINE {
      return Steps<whole + 1>(hidden(tile))(done.acc[2 * unit + pixel][j], pixel == 0 ? a : b, j);
    };
    if constexpr (whole == 1) {
      const __m512i left = codes(step(Index<0>{}, Index<0>{}), both);
      const __m512i right = codes(step(Index<1>{}, Index<0>{}), both);
      put(output + offsets[0], _mm512_permutexvar_epi64(fresh(kOrder), left), target.channels);
      put(output + offsets[1], _mm512_permutexvar_epi64(fresh(kOther), right), target.channels);
    } else {
      const __m512i last = in_order(codes(both, both));
      const auto mask = static_cast<__mmask8>(target.channels >> 32);
      repeat<2>([&](auto pixel) CALIB8_INLINE {
        int16_t* to = output + offsets[pixel];
        _mm512_storeu_si512(to, in_order(codes(step(pixel, Index<0>{}), step(pixel, Index<1>{}))));
        _mm_mask_storeu_epi16(to + 32, mask, _mm512_extracti32x4_epi32(last, pixel));
      });
    }
  }
};

// The last up to 8 channels twice.
template <int whole>
inline void repeat_channels(WideFlow& flow, bool fixed) {
  for (int64_t c = 0; c < 16 * (whole + 1); ++c) {
    const int64_t source = c < 16 * whole ? c : 16 * whole + c % 8;
    flow.bias[c] = flow.tile.bias[source];
    if (fixed) {
      flow.scaled[c] = flow.tile.scaled[source];
    } else {
      flow.factor[c] = flow.tile.factor[source];
    }
  }
  flow.tile.bias = flow.bias;
  flow.tile.factor = flow.factor;
  flow.tile.scaled = flow.scaled;
}

template <class Shape, class End, int halves, bool fixed>
void run_wide(WideFlow& flow, int64_t count) {
  if constexpr (halves > 0) repeat_channels<halves>(flow, fixed);
  set_turns<Shape>(flow, count);
  run_turns<Shape, End>(flow);
}

// `halves`: whole registers of a PairShape, or 0.
template <class Words, class Bytes, int halves>
constexpr WideFlowSet kWideFlows{
    {run_wide<Words, BytesEnd<FloatSteps, Last<false, false>>, halves, false>,
     run_wide<Words, BytesEnd<HalvesSteps, Last<false, false>>, halves, true>},
    {run_wide<Words, WordsEnd16<FloatSteps>, halves, false>,
     run_wide<Words, WordsEnd16<HalvesSteps>, halves, true>},
    {run_wide<Bytes, WordsEnd16<FloatSteps>, halves, false>,
     run_wide<Bytes, WordsEnd16<HalvesSteps>, halves, true>},
};
template <int width>
constexpr const WideFlowSet& kWholeFlows = kWideFlows<WholeShape<width, WordProducts>, WholeShape<width>, 0>;
template <int whole>
constexpr const WideFlowSet& kPairFlows = kWideFlows<PairShape<whole, WordProducts>, PairShape<whole>, whole>;

}  // namespace
}  // namespace calib8::engine
