// The walk of counting over blocks of values, for the instruction set of the file that includes this.
//
// One block is indexed while the block before it is counted: the increments wait for the store-to-load
// latency of the counters, and the vector work fits into that time. A block with a value that cannot be
// indexed goes to the reference, and so does what is left behind the last whole step.
//
// Lanes, the vectors of an instruction set, has
//   Extrema                          the smallest and the largest value by lanes
//   all(extrema)                     the same in every lane
//   widen_by(sample, extrema)        takes in those of all lanes
//   Indexer(scale, extrema)          step(values, indices): writes the indices of kStep values, zeros left
//                                    out (up to kStep behind them may be overwritten), returns how many
//   Measurer(extrema)                step(values): looks at kStep values; zeros(): how many were 0
// and of both of the last two failed(), whether a value was not countable, and extrema.
//
// Internal linkage only, and no library templates: an inline function compiled here must never stand in
// for its namesake in code that runs on every CPU.
#pragma once

#include "histogram.h"

namespace calib8 {
namespace {

constexpr int kBlock = 1024;  // values per block
constexpr int kStep = 32;     // values per step

// Indexes n values (a multiple of kStep) into `indices`, zeros left out, and counts the `pending` indices of
// the block before. Returns how many indices it wrote, or −1 when a value was not countable.
template <class Lanes>
int index_block(const float* values, int n, float scale, uint16_t* indices, const uint16_t* pending,
                int pending_count, uint16_t* counts, typename Lanes::Extrema& extrema) {
  typename Lanes::Indexer indexer(scale, extrema);
  const int per_step = pending_count / (n / kStep) & ~3;
  int written = 0, counted = 0;
  for (int i = 0; i < n; i += kStep) {
    written += indexer.step(values + i, indices + written);
    for (const int end = counted + per_step; counted < end; counted += 4) {
      for (int j = 0; j < 4; ++j) ++counts[pending[counted + j]];
    }
  }
  for (; counted < pending_count; ++counted) ++counts[pending[counted]];
  if (indexer.failed()) return -1;
  extrema = indexer.extrema;
  return written;
}

// Zeros among n values (a multiple of kStep), or −1 where one of them is not finite.
template <class Lanes>
int measure_block(const float* values, int n, typename Lanes::Extrema& extrema) {
  typename Lanes::Measurer measurer(extrema);
  for (int i = 0; i < n; i += kStep) measurer.step(values + i);
  if (measurer.failed()) return -1;
  extrema = measurer.extrema;
  return measurer.zeros();
}

template <class Lanes>
void count_blocks(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  BinTable& table = counter.table;
  alignas(64) uint16_t buffers[2][kBlock + kStep];
  typename Lanes::Extrema extrema = Lanes::all(sample);
  float scale = bin_scale(state.exponent);
  int pending = 0, side = 0;
  const int64_t whole = n - n % kStep;
  for (int64_t at = 0; at < whole; at += kBlock) {
    const int size = whole - at < kBlock ? static_cast<int>(whole - at) : kBlock;
    if (table.filled > UINT16_MAX - pending) drain(counter);
    table.filled += pending;
    const int written = index_block<Lanes>(values + at, size, scale, buffers[side], buffers[1 - side],
                                           pending, table.counts, extrema);
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
  Lanes::widen_by(sample, extrema);
  count_reference(values + whole, n - whole, counter, sample);
}

template <class Lanes>
void measure_blocks(const float* values, int64_t n, Counter& counter, Extrema& sample) {
  Histogram& state = counter.histogram;
  typename Lanes::Extrema extrema = Lanes::all(sample);
  const int64_t whole = n - n % kStep;
  for (int64_t at = 0; at < whole; at += kBlock) {
    const int size = whole - at < kBlock ? static_cast<int>(whole - at) : kBlock;
    const int zeros = measure_block<Lanes>(values + at, size, extrema);
    if (zeros < 0) {
      measure_reference(values + at, size, counter, sample);
    } else {
      state.count += size;
      state.zeros += zeros;
    }
  }
  Lanes::widen_by(sample, extrema);
  measure_reference(values + whole, n - whole, counter, sample);
}

}  // namespace
}  // namespace calib8
