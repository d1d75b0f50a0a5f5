// Blocks of bytes and of 32-bit words transposed in registers, and lines shorter than a register.
//
//   target[c · target_stride + r] = load(source + r · source_stride, element c)
//
// A Load turns elements of the source into bytes: `size` bytes per element, `full` for a whole register,
// `part` for the first n elements of one; or into words: `group(source, r, c, n)` gives n of row r from
// column c on. Nothing is read or written outside the rectangle. Blocks at the ends overlap their neighbours.
// All of it has internal linkage.
#pragma once

#if defined(__aarch64__)
#include "transpose_neon.h"
#else
#include "transpose_avx2.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Rows are taken many at a time, so that lines of the target fill up while they are in the cache.
template <class Load>
inline void transpose_words(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                            int64_t target_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kRows = 256;
  for (int64_t tile = 0; tile < rows; tile += kRows) {
    const int64_t end = least(tile + kRows, rows);
    for (int64_t column = 0; column < columns; column += kGroup) {
      const int64_t c = fitted(column, columns, kGroup);
      for (int64_t row = tile; row < end; row += kGroup) {
        const int64_t r = fitted(row, rows, kGroup);
        if (rows >= kGroup && columns >= kGroup) {
          transpose_word_block(load, source, source_stride, target, target_stride, r, c, kGroup, kGroup);
        } else {
          transpose_word_block(load, source, source_stride, target, target_stride, r, c, least(rows, kGroup),
                               least(columns, kGroup));
        }
      }
    }
  }
}

}  // namespace
}  // namespace calib8::engine
