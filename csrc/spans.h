// How the values of one tensor lie in memory, sample after sample, and the counting of a range of them.
#pragma once

#include <vector>

#include "dispatch.h"

namespace calib8 {

// A row is `dense` values one after the other, then `positions` groups of `lanes` values, each group `block`
// floats after the last; rows are `stride` floats apart. So lies a tensor whose channels are stored in blocks
// when the last block is not full; any other has dense values only. So many rows make a sample.
struct Spans {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t rows_per_sample = 1;
  int64_t stride = 0;
  int64_t dense = 0;
  int64_t positions = 0;
  int64_t lanes = 1;
  int64_t block = 1;

  int64_t per_row() const { return dense + positions * lanes; }
  int64_t values() const { return rows * per_row(); }
  int64_t samples() const { return rows / rows_per_sample; }
};

// n values of `samples` samples (a divisor of n), one after the other.
Spans dense_spans(const float* data, int64_t n, int64_t samples);

// What a piece of one sample had as extrema.
struct Piece {
  int64_t sample;
  Extrema extrema;
};

// Counts the values first … last − 1 (or only measures them), and adds a piece for every row they touch.
void count_range(const Spans& spans, int64_t first, int64_t last, bool bins, const Isa& isa, Counter& counter,
                 std::vector<Piece>& pieces);

// Where to cut near value `index`: not inside a group.
int64_t cut_near(const Spans& spans, int64_t index);

// Ends the samples whose pieces these are; pieces of one sample follow each other.
void end_samples(const std::vector<Piece>& pieces, Histogram& state);

// A number for the values of one sample, from their bits and their order. Equal for equal values (of one
// sign of zero and one NaN); two sets that differ have the same one by chance only, once in about 2^64.
uint64_t fingerprint(const Spans& spans, int64_t sample);

}  // namespace calib8
