// The counting of values with AVX2: eight bin indices at a time, zeros shuffled out, then plain counters.
//
// One block is indexed while the block before it is counted: the increments wait for the store-to-load
// latency of the counters, and the vector work fits into that time.
//
// Internal linkage only, and no library templates: an inline function compiled here must never stand in
// for its namesake in code that runs on every CPU.
#include <immintrin.h>

#include "histogram.h"

namespace calib8 {
namespace {

constexpr int kBlock = 1024;  // values per block
constexpr int kStep = 32;     // values per step, eight to a vector

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
};

// 4096 + bin for a positive value, 4095 − bin for a negative one. NaN, infinities and values that are not
// yet covered give something outside 0 … 8191.
__m256i table_index(__m256 values, __m256 scale) {
  const __m256i truncated = _mm256_cvttps_epi32(_mm256_mul_ps(values, scale));
  const __m256i sign = _mm256_srai_epi32(_mm256_castps_si256(values), 31);
  return _mm256_add_epi32(_mm256_add_epi32(truncated, sign), _mm256_set1_epi32(kBins));
}

// Indexes n values (a multiple of 32) into `indices`, zeros left out, and counts the `pending` indices of
// the block before. Returns how many indices it wrote, or −1 when a value was not countable.
int index_block(const float* values, int n, float scale, uint16_t* indices, const uint16_t* pending,
                int pending_count, uint16_t* counts, LaneExtrema& extrema) {
  const __m256 factor = _mm256_set1_ps(scale);
  const __m256 zero = _mm256_setzero_ps();
  __m256i seen = _mm256_setzero_si256();
  __m256 minimum = extrema.minimum, maximum = extrema.maximum;
  const int per_step = pending_count / (n / kStep) & ~3;
  int written = 0, counted = 0;
  for (int i = 0; i < n; i += kStep) {
    for (int j = i; j < i + kStep; j += 8) {
      const __m256 value = _mm256_loadu_ps(values + j);
      const __m256i index = table_index(value, factor);
      const __m128i packed =
          _mm_packs_epi32(_mm256_castsi256_si128(index), _mm256_extracti128_si256(index, 1));
      const int nonzero = _mm256_movemask_ps(_mm256_cmp_ps(value, zero, _CMP_NEQ_UQ));
      const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(kCompaction.shuffle[nonzero]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(indices + written), _mm_shuffle_epi8(packed, shuffle));
      written += __builtin_popcount(static_cast<unsigned>(nonzero));
      seen = _mm256_or_si256(seen, index);
      minimum = _mm256_min_ps(value, minimum);
      maximum = _mm256_max_ps(value, maximum);
    }
    for (const int end = counted + per_step; counted < end; counted += 4) {
      for (int j = 0; j < 4; ++j) ++counts[pending[counted + j]];
    }
  }
  for (; counted < pending_count; ++counted) ++counts[pending[counted]];
  if (!_mm256_testz_si256(seen, _mm256_set1_epi32(~(2 * kBins - 1)))) return -1;
  extrema.minimum = minimum;
  extrema.maximum = maximum;
  return written;
}

// Zeros among n values (a multiple of 32), or −1 where one of them is not finite.
int measure_block(const float* values, int n, LaneExtrema& extrema) {
  const __m256 zero = _mm256_setzero_ps();
  const __m256i magnitude_bits = _mm256_set1_epi32(0x7fffffff);
  __m256i largest = _mm256_setzero_si256(), zeros = _mm256_setzero_si256();
  __m256 minimum = extrema.minimum, maximum = extrema.maximum;
  for (int i = 0; i < n; i += 8) {
    const __m256 value = _mm256_loadu_ps(values + i);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(value), magnitude_bits));
    zeros = _mm256_sub_epi32(zeros, _mm256_castps_si256(_mm256_cmp_ps(value, zero, _CMP_EQ_OQ)));
    minimum = _mm256_min_ps(value, minimum);
    maximum = _mm256_max_ps(value, maximum);
  }
  if (_mm256_movemask_epi8(_mm256_cmpgt_epi32(largest, _mm256_set1_epi32(0x7f7fffff))) != 0) return -1;
  extrema.minimum = minimum;
  extrema.maximum = maximum;
  int32_t lanes[8], sum = 0;
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), zeros);
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

void widen_by_lanes(Extrema& sample, const LaneExtrema& extrema) {
  float minimum[8], maximum[8];
  _mm256_storeu_ps(minimum, extrema.minimum);
  _mm256_storeu_ps(maximum, extrema.maximum);
  for (int lane = 0; lane < 8; ++lane) widen(sample, {minimum[lane], maximum[lane]});
}

}  // namespace

void count_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  BinTable& table = counter.table;
  alignas(64) uint16_t buffers[2][kBlock + kStep];
  LaneExtrema extrema = {_mm256_set1_ps(sample.minimum), _mm256_set1_ps(sample.maximum)};
  float scale = bin_scale(state.exponent);
  int pending = 0, side = 0;
  const int64_t whole = n - n % kStep;
  for (int64_t at = 0; at < whole; at += kBlock) {
    const int size = whole - at < kBlock ? static_cast<int>(whole - at) : kBlock;
    if (table.filled > UINT16_MAX - pending) drain(counter);
    table.filled += pending;
    const int written = index_block(values + at, size, scale, buffers[side], buffers[1 - side], pending,
                                    table.counts, extrema);
    if (written < 0) {
      drain(counter);
      count_reference(values + at, size, counter, sample);
      scale = bin_scale(state.exponent);
      pending = 0;
    } else {
      state.count += size;
      state.zeros += size - written;
      pending = written;
      side = 1 - side;
    }
  }
  if (table.filled > UINT16_MAX - pending) drain(counter);
  table.filled += pending;
  for (int i = 0; i < pending; ++i) ++table.counts[buffers[1 - side][i]];
  widen_by_lanes(sample, extrema);
  count_reference(values + whole, n - whole, counter, sample);
}

void measure_avx2(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  LaneExtrema extrema = {_mm256_set1_ps(sample.minimum), _mm256_set1_ps(sample.maximum)};
  const int64_t whole = n - n % kStep;
  for (int64_t at = 0; at < whole; at += kBlock) {
    const int size = whole - at < kBlock ? static_cast<int>(whole - at) : kBlock;
    const int zeros = measure_block(values + at, size, extrema);
    if (zeros < 0) {
      measure_reference(values + at, size, counter, sample);
    } else {
      state.count += size;
      state.zeros += zeros;
    }
  }
  widen_by_lanes(sample, extrema);
  measure_reference(values + whole, n - whole, counter, sample);
}

}  // namespace calib8
