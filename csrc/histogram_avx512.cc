// The counting of values with AVX-512: 32 bin indices at a time, zeros compressed out, then plain counters.
//
// Internal linkage only, and no library templates: an inline function compiled here must never stand in
// for its namesake in code that runs on every CPU.
#include <immintrin.h>

#include "histogram_blocks.h"

namespace calib8 {
namespace {

struct LaneExtrema {
  __m512 minimum;
  __m512 maximum;

  void take(__m512 low, __m512 high) {
    minimum = _mm512_min_ps(_mm512_min_ps(low, high), minimum);
    maximum = _mm512_max_ps(_mm512_max_ps(low, high), maximum);
  }
};

// 4096 + bin for a positive value, 4095 − bin for a negative one. NaN, infinities and values that are not
// yet covered give something outside 0 … 8191.
__m512i table_index(__m512 values, __m512 scale) {
  const __m512i truncated = _mm512_cvttps_epi32(_mm512_mul_ps(values, scale));
  const __m512i sign = _mm512_srai_epi32(_mm512_castps_si512(values), 31);
  return _mm512_add_epi32(_mm512_add_epi32(truncated, sign), _mm512_set1_epi32(kBins));
}

struct LaneIndexer {
  LaneExtrema extrema;
  __m512 factor;
  __m512i seen = _mm512_setzero_si512();

  LaneIndexer(float scale, const LaneExtrema& before) : extrema(before), factor(_mm512_set1_ps(scale)) {}

  int step(const float* values, uint16_t* indices) {
    const __m512 zero = _mm512_setzero_ps();
    const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30,
                                          28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512 low = _mm512_loadu_ps(values), high = _mm512_loadu_ps(values + 16);
    const __m512i low_index = table_index(low, factor), high_index = table_index(high, factor);
    const __mmask32 nonzero = _mm512_kunpackw(_mm512_cmp_ps_mask(high, zero, _CMP_NEQ_UQ),
                                              _mm512_cmp_ps_mask(low, zero, _CMP_NEQ_UQ));
    const __m512i packed = _mm512_permutex2var_epi16(low_index, even, high_index);
    _mm512_storeu_si512(indices, _mm512_maskz_compress_epi16(nonzero, packed));
    seen = _mm512_or_si512(seen, _mm512_or_si512(low_index, high_index));
    extrema.take(low, high);
    return __builtin_popcount(nonzero);
  }

  bool failed() const { return _mm512_test_epi32_mask(seen, _mm512_set1_epi32(~(2 * kBins - 1))) != 0; }
};

struct LaneMeasurer {
  LaneExtrema extrema;
  __m512i largest = _mm512_setzero_si512();  // magnitudes by their bits
  int zero_count = 0;

  explicit LaneMeasurer(const LaneExtrema& before) : extrema(before) {}

  void step(const float* values) {
    const __m512 zero = _mm512_setzero_ps();
    const __m512i magnitude_bits = _mm512_set1_epi32(0x7fffffff);
    const __m512 low = _mm512_loadu_ps(values), high = _mm512_loadu_ps(values + 16);
    const __m512i either = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude_bits),
                                            _mm512_and_si512(_mm512_castps_si512(high), magnitude_bits));
    largest = _mm512_max_epi32(largest, either);
    zero_count += __builtin_popcount(_mm512_kunpackw(_mm512_cmp_ps_mask(high, zero, _CMP_EQ_OQ),
                                                     _mm512_cmp_ps_mask(low, zero, _CMP_EQ_OQ)));
    extrema.take(low, high);
  }

  bool failed() const { return _mm512_cmpgt_epi32_mask(largest, _mm512_set1_epi32(0x7f7fffff)) != 0; }

  int zeros() const { return zero_count; }
};

struct Lanes {
  using Extrema = LaneExtrema;
  using Indexer = LaneIndexer;
  using Measurer = LaneMeasurer;

  static LaneExtrema all(const calib8::Extrema& sample) {
    return {_mm512_set1_ps(sample.minimum), _mm512_set1_ps(sample.maximum)};
  }

  static void widen_by(calib8::Extrema& sample, const LaneExtrema& extrema) {
    widen(sample, {_mm512_reduce_min_ps(extrema.minimum), _mm512_reduce_max_ps(extrema.maximum)});
  }
};

}  // namespace

void count_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  count_blocks<Lanes>(values, n, counter, sample);
}

void measure_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  measure_blocks<Lanes>(values, n, counter, sample);
}

}  // namespace calib8
