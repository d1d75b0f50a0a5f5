// What range searches compare: the divergence and the squared error of every candidate of one tensor.
//
// Counts are 64-bit integers; everything else is double, in an order of operations that the source fixes,
// with the logarithm of natural_log.h: a candidate gets the same bits on every machine and from every
// compiler that does not contract a·b + c.
#pragma once

#include <cstdint>

namespace calib8 {

// KL(i) in nats for i = levels … bins: the divergence between the counts with everything from bin i on put
// into bin i − 1, and the first i bins as `levels` groups of equal height. +inf where that is impossible.
//
//   counts        not negative, sum in 1 … 2^62
//   levels        1 … bins
//   divergences   bins − levels + 1 of them, written
void divergences(const int64_t* counts, int64_t bins, int64_t levels, double* divergences);

// Ways to code values with `codes` codes: code k = 0 … codes − 1 of candidate i stands for
// steps[i]·(lowest[i] + k).
struct Candidates {
  const double* steps;    // [size], in widths of a bin, > 0
  const int64_t* lowest;  // [size], smallest code minus zero point
  int64_t size, codes;
};

// For each candidate the sum of squared differences between values and what their codes stand for, in squared
// widths of a bin. Values are taken as spread evenly over their bin. What rounding leaves is up to 1e-15 of
// the error of coding every value as the largest code.
//
//   counts        not negative, sum ≤ 2^62; bin k holds values from k − origin to k + 1 − origin, in widths
//   errors        [candidates.size], written
void squared_errors(const int64_t* counts, int64_t bins, int64_t origin, const Candidates& candidates,
                    double* errors);

}  // namespace calib8
