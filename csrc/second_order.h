// Rounding of weights by what it does to a layer's outputs, which a matrix H of products of its inputs knows.
//
//   W  [rows, size]   weights, one row per output;  s [rows] their scales, > 0;  q codes, −limit … limit
//   e  = s·q − W      the error of a row;  e H eᵀ the error energy of its output
//
// All is double. Every number is computed by the same operations in the same order whatever the instruction
// set and the number of threads, so the codes are the same too.
#pragma once

#include <cstdint>

namespace calib8 {

// A matrix in rows of `stride` elements.
struct ConstMatrix {
  const double* data;
  int64_t stride;
};
struct Matrix {
  double* data;
  int64_t stride;
};

// c[i, j] −= Σ_k a[i, k]·b[k, j], one product after the other in ascending k, each rounded.
//
//   c [rows, columns], a [rows, inner], b [inner, columns]; c overlaps neither
void subtract_product_reference(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                                int64_t inner);
#if defined(__x86_64__)
void subtract_product_avx2(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                           int64_t inner);
#endif

// As many layers as a layer has groups, one behind the other in memory.
struct Rows {
  int64_t groups, rows, size;
};

// H = L D Lᵀ in place: below the diagonal L (which has ones on it), on the diagonal D. What is above it
// stays. A pivot that is not positive, or that rounding has left nothing of, leaves zeros below it.
//
//   products   [groups, size, size], symmetric
void factor(double* products, int64_t groups, int64_t size, int threads);

// Codes that carry the error of each weight into those that are still to be rounded, from the last to the
// first: q_k = clip(rint((W_k − Σ_{i>k} e_i L_ik) / s)).
//
//   factors    what `factor` made
//   codes      [groups, rows, size], written
void round_in_turn(const Rows& shape, const double* weights, const double* scales, const double* factors,
                   int limit, int8_t* codes, int threads);

// Moves one code after the other to where e H eᵀ is least, `sweeps` times or until none moves.
//
//   products   H, with a positive diagonal; a weight whose entry is not keeps its code
//   codes      [groups, rows, size], changed
void descend(const Rows& shape, const double* weights, const double* scales, const double* products,
             int limit, int sweeps, int8_t* codes, int threads);

// result = rows · matrix within each group: [groups, rows, size] · [groups, size, columns].
void multiply(const Rows& shape, int64_t columns, const double* rows, const double* matrix, double* result,
              int threads);

}  // namespace calib8
