// The counting of values with AVX2: eight bin indices at a time, zeros shuffled out, then plain counters.
//
// Internal linkage only, and no library templates: an inline function compiled here must never stand in
// for its namesake in code that runs on every CPU.
#include <immintrin.h>

#include "histogram_blocks.h"

namespace calib8 {
namespace {

// For each mask of eight 16-bit lanes the byte shuffle that moves the chosen lanes to the front.
struct Compaction {
  alignas(16) uint8_t shuffle[256][16];

  constexpr Compaction() : shuffle() {
    for (int mask = 0; mask < 256; ++mask) {
      int kept = 0;
      for (int lane = 0; lane < 8; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        shuffle[mask][2 * kept] = static_cast<uint8_t>(2 * lane);
        shuffle[mask][2 * kept + 1] = static_cast<uint8_t>(2 * lane + 1);
        ++kept;
      }
    }
  }
};

constexpr Compaction kCompaction;

struct LaneExtrema {
  __m256 minimum;
  __m256 maximum;

  void take(__m256 value) {
    minimum = _mm256_min_ps(value, minimum);
    maximum = _mm256_max_ps(value, maximum);
  }
};

// 4096 + bin for a positive value, 4095 − bin for a negative one. NaN, infinities and values that are not
// yet covered give something outside 0 … 8191.
__m256i table_index(__m256 values, __m256 scale) {
  const __m256i truncated = _mm256_cvttps_epi32(_mm256_mul_ps(values, scale));
  const __m256i sign = _mm256_srai_epi32(_mm256_castps_si256(values), 31);
  return _mm256_add_epi32(_mm256_add_epi32(truncated, sign), _mm256_set1_epi32(kBins));
}

struct LaneIndexer {
  LaneExtrema extrema;
  __m256 factor;
  __m256i seen = _mm256_setzero_si256();

  LaneIndexer(float scale, const LaneExtrema& before) : extrema(before), factor(_mm256_set1_ps(scale)) {}

  int step(const float* values, uint16_t* indices) {
    int written = 0;
    for (int j = 0; j < kStep; j += 8) {
      const __m256 value = _mm256_loadu_ps(values + j);
      const __m256i index = table_index(value, factor);
      const __m128i packed =
          _mm_packs_epi32(_mm256_castsi256_si128(index), _mm256_extracti128_si256(index, 1));
      const int nonzero = _mm256_movemask_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ));
      const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kCompaction.shuffle[nonzero]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(indices + written), _mm_shuffle_epi8(packed, shuffle));
      written += __builtin_popcount(static_cast<unsigned>(nonzero));
      seen = _mm256_or_si256(seen, index);
      extrema.take(value);
    }
    return written;
  }

  bool failed() const { return !_mm256_testz_si256(seen, _mm256_set1_epi32(~(2 * kBins - 1))); }
};

struct LaneMeasurer {
  LaneExtrema extrema;
  __m256i largest = _mm256_setzero_si256();  // magnitudes by their bits
  __m256i zero_lanes = _mm256_setzero_si256();

  explicit LaneMeasurer(const LaneExtrema& before) : extrema(before) {}

  void step(const float* values) {
    const __m256i magnitude_bits = _mm256_set1_epi32(0x7fffffff);
    for (int j = 0; j < kStep; j += 8) {
      const __m256 value = _mm256_loadu_ps(values + j);
      const __m256 is_zero = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_EQ_OQ);
      largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(value), magnitude_bits));
      zero_lanes = _mm256_sub_epi32(zero_lanes, _mm256_castps_si256(is_zero));
      extrema.take(value);
    }
  }

  bool failed() const {
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, _mm256_set1_epi32(0x7f7fffff))) != 0;
  }

  int zeros() const {
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), zero_lanes);
    for (const int32_t lane : lanes) sum += lane;
    return sum;
  }
};

struct Lanes {
  using Extrema = LaneExtrema;
  using Indexer = LaneIndexer;
  using Measurer = LaneMeasurer;

  static LaneExtrema all(const calib8::Extrema& sample) {
    return {_mm256_set1_ps(sample.minimum), _mm256_set1_ps(sample.maximum)};
  }

  static void widen_by(calib8::Extrema& sample, const LaneExtrema& extrema) {
    float minimum[8], maximum[8];
    _mm256_storeu_ps(minimum, extrema.minimum);
    _mm256_storeu_ps(maximum, extrema.maximum);
    for (int lane = 0; lane < 8; ++lane) widen(sample, {minimum[lane], maximum[lane]});
  }
};

}  // namespace

void count_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  count_blocks<Lanes>(values, n, counter, sample);
}

void measure_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  measure_blocks<Lanes>(values, n, counter, sample);
}

}  // namespace calib8
