// The counting of values with AVX-512: 32 bin indices at a time, zeros compressed out, then plain counters.
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
constexpr int kStep = 32;     // values per step, sixteen to a vector

struct LaneExtrema {
  __m512 minimum;
  __m512 maximum;
};

// 4096 + bin for a positive value, 4095 − bin for a negative one. NaN, infinities and values that are not
// yet covered give something outside 0 … 8191.
__m512i table_index(__m512 values, __m512 scale) {
  const __m512i truncated = _mm512_cvttps_epi32(_mm512_mul_ps(values, scale));
  const __m512i sign = _mm512_srai_epi32(_mm512_castps_si512(values), 31);
  return _mm512_add_epi32(_mm512_add_epi32(truncated, sign), _mm512_set1_epi32(kBins));
}

// Indexes n values (a multiple of 32) into `indices`, zeros left out, and counts the `pending` indices of
// the block before. Returns how many indices it wrote, or −1 when a value was not countable.
int index_block(const float* values, int n, float scale, uint16_t* indices, const uint16_t* pending,
                int pending_count, uint16_t* counts, LaneExtrema& extrema) {
  const __m512 factor = _mm512_set1_ps(scale);
  const __m512 zero = _mm512_setzero_ps();
  const __m512i even = _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30,
                                        28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  __m512i seen = _mm512_setzero_si512();
  __m512 minimum = extrema.minimum, maximum = extrema.maximum;
  const int per_step = pending_count / (n / kStep) & ~3;
  int written = 0, counted = 0;
  for (int i = 0; i < n; i += kStep) {
    const __m512 low = _mm512_loadu_ps(values + i), high = _mm512_loadu_ps(values + i + 16);
    const __m512i low_index = table_index(low, factor), high_index = table_index(high, factor);
    const __mmask32 nonzero = _mm512_kunpackw(_mm512_cmp_ps_mask(high, zero, _CMP_NEQ_UQ),
                                              _mm512_cmp_ps_mask(low, zero, _CMP_NEQ_UQ));
    const __m512i packed = _mm512_permutex2var_epi16(low_index, even, high_index);
    _mm512_storeu_si512(indices + written, _mm512_maskz_compress_epi16(nonzero, packed));
    written += __builtin_popcount(nonzero);
    seen = _mm512_or_si512(seen, _mm512_or_si512(low_index, high_index));
    minimum = _mm512_min_ps(_mm512_min_ps(low, high), minimum);
    maximum = _mm512_max_ps(_mm512_max_ps(low, high), maximum);
    for (const int end = counted + per_step; counted < end; counted += 4) {
      for (int j = 0; j < 4; ++j) ++counts[pending[counted + j]];
    }
  }
  for (; counted < pending_count; ++counted) ++counts[pending[counted]];
  if (_mm512_test_epi32_mask(seen, _mm512_set1_epi32(~(2 * kBins - 1))) != 0) return -1;
  extrema.minimum = minimum;
  extrema.maximum = maximum;
  return written;
}

// Zeros among n values (a multiple of 32), or −1 where one of them is not finite.
int measure_block(const float* values, int n, LaneExtrema& extrema) {
  const __m512 zero = _mm512_setzero_ps();
  const __m512i magnitude_bits = _mm512_set1_epi32(0x7fffffff);
  __m512i largest = _mm512_setzero_si512();
  __m512 minimum = extrema.minimum, maximum = extrema.maximum;
  int zeros = 0;
  for (int i = 0; i < n; i += kStep) {
    const __m512 low = _mm512_loadu_ps(values + i), high = _mm512_loadu_ps(values + i + 16);
    const __m512i either = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(low), magnitude_bits),
                                            _mm512_and_si512(_mm512_castps_si512(high), magnitude_bits));
    largest = _mm512_max_epi32(largest, either);
    zeros += __builtin_popcount(_mm512_kunpackw(_mm512_cmp_ps_mask(high, zero, _CMP_EQ_OQ),
                                                _mm512_cmp_ps_mask(low, zero, _CMP_EQ_OQ)));
    minimum = _mm512_min_ps(_mm512_min_ps(low, high), minimum);
    maximum = _mm512_max_ps(_mm512_max_ps(low, high), maximum);
  }
  if (_mm512_cmpgt_epi32_mask(largest, _mm512_set1_epi32(0x7f7fffff)) != 0) return -1;
  extrema.minimum = minimum;
  extrema.maximum = maximum;
  return zeros;
}

}  // namespace

void count_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  BinTable& table = counter.table;
  alignas(64) uint16_t buffers[2][kBlock + kStep];
  LaneExtrema extrema = {_mm512_set1_ps(sample.minimum), _mm512_set1_ps(sample.maximum)};
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
  widen(sample, {_mm512_reduce_min_ps(extrema.minimum), _mm512_reduce_max_ps(extrema.maximum)});
  count_reference(values + whole, n - whole, counter, sample);
}

void measure_avx512(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  LaneExtrema extrema = {_mm512_set1_ps(sample.minimum), _mm512_set1_ps(sample.maximum)};
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
  widen(sample, {_mm512_reduce_min_ps(extrema.minimum), _mm512_reduce_max_ps(extrema.maximum)});
  measure_reference(values + whole, n - whole, counter, sample);
}

}  // namespace calib8
