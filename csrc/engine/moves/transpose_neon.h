// transpose.h for Arm.
#pragma once

#include "lanes_neon.h"
#include "parts.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

using Group = Lanes<16>;  // words that are loaded together
constexpr int64_t kGroup = 4;

[[maybe_unused]] inline int32x4_t load_part(const uint8_t* place, int64_t n) {
  if (n == 16) return Group::load(place);
  const Sixteen bytes = sixteen_at(place, n);
  return vreinterpretq_s32_u64(vcombine_u64(vcreate_u64(bytes.low), vcreate_u64(bytes.high)));
}

[[maybe_unused]] inline void store_part(uint8_t* place, int32x4_t value, int64_t n) {
  if (n == 16) return Group::store(place, value);
  const uint64x2_t both = vreinterpretq_u64_s32(value);
  store_sixteen(place, {vgetq_lane_u64(both, 0), vgetq_lane_u64(both, 1)}, n);
}

[[maybe_unused]] inline int32x4_t exclusive_or(int32x4_t a, int32x4_t b) { return veorq_s32(a, b); }

// A Load: bytes as they are but for an exclusive or.
struct PlainBytes {
  static constexpr int64_t size = 1;
  int32x4_t flip;

  uint8x16_t flipped(uint8x16_t bytes) const { return veorq_u8(bytes, Group::u8(flip)); }
  int32x4_t full(const uint8_t* place) const { return veorq_s32(Group::load(place), flip); }
  int32x4_t part(const uint8_t* place, int64_t n) const { return veorq_s32(load_part(place, n), flip); }
};

// One step of a transposition of 16 rows: rows i and i + 8 become rows 2i and 2i + 1. Four steps do it all.
[[maybe_unused]] inline void interleave_rows(const int32x4_t* from, int32x4_t* to) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = Group::low8(from[i], from[i + 8]);
    to[2 * i + 1] = Group::high8(from[i], from[i + 8]);
  }
}

// 16 rows and 16 columns at most.
template <class Load>
[[gnu::always_inline]] inline void transpose_block(const Load& load, const uint8_t* source,
                                                   int64_t source_stride, uint8_t* target,
                                                   int64_t target_stride, int64_t rows, int64_t columns) {
  int32x4_t block[16], other[16];
  for (int64_t r = 0; r < 16; ++r) {
    const uint8_t* from = source + r * source_stride;
    if (r >= rows) {
      block[r] = Group::zero();
    } else {
      block[r] = columns == 16 ? load.full(from) : load.part(from, columns);
    }
  }
  interleave_rows(block, other);
  interleave_rows(other, block);
  interleave_rows(block, other);
  interleave_rows(other, block);
  for (int64_t c = 0; c < columns; ++c) store_part(target + c * target_stride, block[c], rows);
}

template <class Load>
inline void transpose_blocks(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                             int64_t target_stride, int64_t rows, int64_t columns) {
  for (int64_t column = 0; column < columns; column += 16) {
    const int64_t c = fitted(column, columns, 16);
    for (int64_t row = 0; row < rows; row += 16) {
      const int64_t r = fitted(row, rows, 16);
      const uint8_t* from = source + r * source_stride + c * Load::size;
      uint8_t* to = target + c * target_stride + r;
      if (rows >= 16 && columns >= 16) {
        transpose_block(load, from, source_stride, to, target_stride, 16, 16);
      } else {
        transpose_block(load, from, source_stride, to, target_stride, least(rows, 16), least(columns, 16));
      }
    }
  }
}

// Elements of 2, 3 or 4 rows side by side.
[[maybe_unused]] inline void store_pixels(uint8_t* target, const uint8x16x2_t& rows) {
  vst2q_u8(target, rows);
}
[[maybe_unused]] inline void store_pixels(uint8_t* target, const uint8x16x3_t& rows) {
  vst3q_u8(target, rows);
}
[[maybe_unused]] inline void store_pixels(uint8_t* target, const uint8x16x4_t& rows) {
  vst4q_u8(target, rows);
}

// … whose elements come to lie side by side: r0 g0 b0 r1 g1 b1 …
template <class Rows, class Load>
inline void interleave(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                       int64_t columns) {
  constexpr int rows = sizeof(Rows) / 16;
  Rows row;
  if (columns < 16) {
    uint8_t line[16 * rows];
    for (int r = 0; r < rows; ++r) {
      row.val[r] = vreinterpretq_u8_s32(load.part(source + r * source_stride, columns));
    }
    store_pixels(line, row);
    std::memcpy(target, line, static_cast<size_t>(columns * rows));
    return;
  }
  for (int64_t column = 0; column < columns; column += 16) {
    const int64_t c = fitted(column, columns, 16);
    for (int r = 0; r < rows; ++r) {
      row.val[r] = vreinterpretq_u8_s32(load.full(source + r * source_stride + c * Load::size));
    }
    store_pixels(target + c * rows, row);
  }
}

// The way back: pixels of 2, 3 or 4 bytes, at least 16 of them, side by side in the source; `pixels`
// loads 16.
template <int columns, class Load, class Pixels>
inline void separate(const Load& load, const uint8_t* source, uint8_t* target, int64_t target_stride,
                     int64_t rows, const Pixels& pixels) {
  for (int64_t row = 0; row < rows; row += 16) {
    const int64_t r = fitted(row, rows, 16);
    const auto lines = pixels(source + r * columns);
    for (int c = 0; c < columns; ++c) vst1q_u8(target + c * target_stride + r, load.flipped(lines.val[c]));
  }
}

// Whether `separate` has done it.
template <class Load>
inline bool separated(const Load& load, const uint8_t* source, uint8_t* target, int64_t target_stride,
                      int64_t rows, int64_t columns) {
  if constexpr (Load::size == 1) {
    if (rows < 16 || columns < 2 || columns > 4) return false;
    if (columns == 2) {
      separate<2>(load, source, target, target_stride, rows, [](const uint8_t* at) { return vld2q_u8(at); });
    } else if (columns == 3) {
      separate<3>(load, source, target, target_stride, rows, [](const uint8_t* at) { return vld3q_u8(at); });
    } else {
      separate<4>(load, source, target, target_stride, rows, [](const uint8_t* at) { return vld4q_u8(at); });
    }
    return true;
  }
  return false;
}

template <class Load>
inline void transpose_bytes(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                            int64_t target_stride, int64_t rows, int64_t columns) {
  if (target_stride == rows && rows == 3) {
    interleave<uint8x16x3_t>(load, source, source_stride, target, columns);
  } else if (target_stride == rows && rows == 4) {
    interleave<uint8x16x4_t>(load, source, source_stride, target, columns);
  } else if (target_stride == rows && rows == 2) {
    interleave<uint8x16x2_t>(load, source, source_stride, target, columns);
  } else if (source_stride != columns || !separated(load, source, target, target_stride, rows, columns)) {
    transpose_blocks(load, source, source_stride, target, target_stride, rows, columns);
  }
}

// Stores the first n of four words.
[[maybe_unused]] inline void store_words(uint8_t* place, float32x4_t value, int64_t n) {
  if (n == 4) return vst1q_f32(reinterpret_cast<float*>(place), value);
  store_part(place, vreinterpretq_s32_f32(value), 4 * n);
}

// 4 rows and 4 columns at most.
template <class Load>
[[gnu::always_inline]] inline void transpose_word_block(const Load& load, const uint8_t* source,
                                                        int64_t source_stride, uint8_t* target,
                                                        int64_t target_stride, int64_t row, int64_t column,
                                                        int64_t rows, int64_t columns) {
  const uint8_t* from = source + row * source_stride + column * Load::size;
  uint8_t* to = target + column * target_stride + row * 4;
  float32x4_t block[4];
  for (int64_t i = 0; i < 4; ++i, from += source_stride) {
    block[i] = i < rows ? load.group(from, row + i, column, columns) : vdupq_n_f32(0);
  }
  const float32x4_t low02 = vzip1q_f32(block[0], block[2]), high02 = vzip2q_f32(block[0], block[2]);
  const float32x4_t low13 = vzip1q_f32(block[1], block[3]), high13 = vzip2q_f32(block[1], block[3]);
  const float32x4_t lines[] = {vzip1q_f32(low02, low13), vzip2q_f32(low02, low13), vzip1q_f32(high02, high13),
                               vzip2q_f32(high02, high13)};
  for (int64_t i = 0; i < columns; ++i, to += target_stride) store_words(to, lines[i], rows);
}

}  // namespace
}  // namespace calib8::engine
