// The product of two matrices in tiles of 4 × 8; each instruction set compiles it for itself.
//
// Internal linkage only, and no library templates: see histogram_avx2.cc.
#pragma once

#include "second_order.h"

namespace calib8 {
namespace {

typedef double Lanes __attribute__((vector_size(32)));

constexpr int64_t kTileRows = 4;
constexpr int64_t kTileColumns = 8;
constexpr int64_t kInner = 256;  // a packed panel of b, 16 KiB, stays in the first-level cache

inline void load(const double* from, Lanes& to) { __builtin_memcpy(&to, from, sizeof to); }
inline void store(const Lanes& from, double* to) { __builtin_memcpy(to, &from, sizeof from); }

// A full tile; `panel` holds kTileColumns entries of b per k.
inline void full_tile(double* c, int64_t c_stride, const double* a, int64_t a_stride, const double* panel,
                      int64_t inner) {
  Lanes low[kTileRows], high[kTileRows];
  for (int64_t i = 0; i < kTileRows; ++i) {
    load(c + i * c_stride, low[i]);
    load(c + i * c_stride + 4, high[i]);
  }
  for (int64_t k = 0; k < inner; ++k) {
    Lanes left, right;
    load(panel + k * kTileColumns, left);
    load(panel + k * kTileColumns + 4, right);
    for (int64_t i = 0; i < kTileRows; ++i) {
      const double factor = a[i * a_stride + k];
      low[i] -= left * factor;
      high[i] -= right * factor;
    }
  }
  for (int64_t i = 0; i < kTileRows; ++i) {
    store(low[i], c + i * c_stride);
    store(high[i], c + i * c_stride + 4);
  }
}

inline void part_of_tile(double* c, int64_t c_stride, const double* a, int64_t a_stride, const double* panel,
                         int64_t rows, int64_t columns, int64_t inner) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = c[i * c_stride + j];
      for (int64_t k = 0; k < inner; ++k) sum -= panel[k * kTileColumns + j] * a[i * a_stride + k];
      c[i * c_stride + j] = sum;
    }
  }
}

inline void subtract_in_tiles(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                              int64_t inner) {
  alignas(32) double panel[kInner * kTileColumns];
  for (int64_t k = 0; k < inner; k += kInner) {
    const int64_t depth = inner - k < kInner ? inner - k : kInner;
    for (int64_t j = 0; j < columns; j += kTileColumns) {
      const int64_t width = columns - j < kTileColumns ? columns - j : kTileColumns;
      for (int64_t p = 0; p < depth; ++p) {
        const double* const from = b.data + (k + p) * b.stride + j;
        for (int64_t q = 0; q < width; ++q) panel[p * kTileColumns + q] = from[q];
      }
      for (int64_t i = 0; i < rows; i += kTileRows) {
        const int64_t height = rows - i < kTileRows ? rows - i : kTileRows;
        double* const to = c.data + i * c.stride + j;
        const double* const left = a.data + i * a.stride + k;
        if (height == kTileRows && width == kTileColumns) {
          full_tile(to, c.stride, left, a.stride, panel, depth);
        } else {
          part_of_tile(to, c.stride, left, a.stride, panel, height, width, depth);
        }
      }
    }
  }
}

}  // namespace
}  // namespace calib8
