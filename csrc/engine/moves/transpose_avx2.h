// transpose.h for files compiled with AVX2 or more.
#pragma once

#include "lanes_avx2.h"
#include "parts.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Words that are loaded together.
struct Group : Lanes<32> {
  // The first `count` numbers; the others are 0.
  static Ints some_numbers(const int32_t* from, int64_t count) {
    return _mm256_maskload_epi32(from, first32(count));
  }
  static Floats some_numbers(const float* from, int64_t count) {
    return _mm256_maskload_ps(from, first32(count));
  }
  static Ints numbers_of(__m128i codes) { return _mm256_cvtepu8_epi32(codes); }
  static uint64_t first64(Ints a) { return static_cast<uint64_t>(_mm256_extract_epi64(a, 0)); }
};
constexpr int64_t kGroup = 8;

[[maybe_unused]] inline __m128i load_part(const uint8_t* place, int64_t n) {
  if (n == 16) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(place));
  const Sixteen bytes = sixteen_at(place, n);
  return _mm_set_epi64x(static_cast<int64_t>(bytes.high), static_cast<int64_t>(bytes.low));
}

[[maybe_unused]] inline void store_part(uint8_t* place, __m128i value, int64_t n) {
  if (n == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(place), value);
    return;
  }
  const auto low = static_cast<uint64_t>(_mm_cvtsi128_si64(value));
  store_sixteen(place, {low, n > 8 ? static_cast<uint64_t>(_mm_extract_epi64(value, 1)) : 0}, n);
}

[[maybe_unused]] inline __m128i exclusive_or(__m128i a, __m128i b) { return _mm_xor_si128(a, b); }

// A Load: bytes as they are but for an exclusive or.
struct PlainBytes {
  static constexpr int64_t size = 1;
  __m256i flip;

  __m256i wide(const uint8_t* place) const {
    return _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(place)), flip);
  }
  __m128i full(const uint8_t* place) const {
    return _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(place)), half());
  }
  __m128i part(const uint8_t* place, int64_t n) const { return _mm_xor_si128(load_part(place, n), half()); }
  __m128i half() const { return _mm256_castsi256_si128(flip); }
};

// One step of a transposition of 16 rows: rows i and i + 8 become rows 2i and 2i + 1. Four steps do it all.
[[maybe_unused]] inline void interleave_rows(const __m128i* from, __m128i* to) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = _mm_unpacklo_epi8(from[i], from[i + 8]);
    to[2 * i + 1] = _mm_unpackhi_epi8(from[i], from[i + 8]);
  }
}
[[maybe_unused]] inline void interleave_rows(const __m256i* from, __m256i* to) {
  for (int i = 0; i < 8; ++i) {
    to[2 * i] = _mm256_unpacklo_epi8(from[i], from[i + 8]);
    to[2 * i + 1] = _mm256_unpackhi_epi8(from[i], from[i + 8]);
  }
}
template <class Register>
inline void transpose_16(Register* rows) {
  Register other[16];
  interleave_rows(rows, other);
  interleave_rows(other, rows);
  interleave_rows(rows, other);
  interleave_rows(other, rows);
}

// 16 rows and 16 columns at most.
template <class Load>
[[gnu::always_inline]] inline void transpose_block(const Load& load, const uint8_t* source,
                                                   int64_t source_stride, uint8_t* target,
                                                   int64_t target_stride, int64_t rows, int64_t columns) {
  __m128i block[16];
  for (int64_t r = 0; r < 16; ++r) {
    const uint8_t* from = source + r * source_stride;
    if (r >= rows) {
      block[r] = _mm_setzero_si128();
    } else {
      block[r] = columns == 16 ? load.full(from) : load.part(from, columns);
    }
  }
  transpose_16(block);
  for (int64_t c = 0; c < columns; ++c) store_part(target + c * target_stride, block[c], rows);
}

// 16 rows and 32 columns: two blocks side by side in the halves of the registers.
template <class Load>
inline void transpose_wide(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                           int64_t target_stride) {
  __m256i block[16];
  for (int64_t r = 0; r < 16; ++r) block[r] = load.wide(source + r * source_stride);
  transpose_16(block);
  for (int64_t c = 0; c < 16; ++c) {
    uint8_t* to = target + c * target_stride;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(block[c]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * target_stride),
                     _mm256_extracti128_si256(block[c], 1));
  }
}

template <class Load>
inline void transpose_blocks(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                             int64_t target_stride, int64_t rows, int64_t columns) {
  for (int64_t column = 0; column < columns;) {
    const bool wide = rows >= 16 && columns - column >= 32;
    const int64_t c = wide ? column : fitted(column, columns, 16);
    for (int64_t row = 0; row < rows; row += 16) {
      const int64_t r = fitted(row, rows, 16);
      const uint8_t* from = source + r * source_stride + c * Load::size;
      uint8_t* to = target + c * target_stride + r;
      if (wide) {
        transpose_wide(load, from, source_stride, to, target_stride);
      } else if (rows >= 16 && columns >= 16) {
        transpose_block(load, from, source_stride, to, target_stride, 16, 16);
      } else {
        transpose_block(load, from, source_stride, to, target_stride, least(rows, 16), least(columns, 16));
      }
    }
    column += wide ? 32 : 16;
  }
}

// How n registers, of one row each, become n registers of pixels: byte p of the pixels is byte p / n of row
// p % n. And the way back. −128 stands for none.
template <int n>
struct Shuffles {
  int8_t pixels[n][n][16], rows[n][n][16];  // [register that is made][register it is made of]
};

template <int n>
constexpr Shuffles<n> shuffles() {
  Shuffles<n> result{};
  for (int made = 0; made < n; ++made) {
    for (int of = 0; of < n; ++of) {
      for (int i = 0; i < 16; ++i) {
        const int pixel = 16 * made + i, byte = n * i + made;
        result.pixels[made][of][i] = static_cast<int8_t>(pixel % n == of ? pixel / n : -128);
        result.rows[made][of][i] = static_cast<int8_t>(byte / 16 == of ? byte % 16 : -128);
      }
    }
  }
  return result;
}

template <int n>
constexpr Shuffles<n> kShuffles = shuffles<n>();

template <int n>
inline __m128i shuffled(const __m128i* registers, const int8_t (*how)[16]) {
  __m128i all = _mm_setzero_si128();
  for (int of = 0; of < n; ++of) {
    const __m128i places = _mm_loadu_si128(reinterpret_cast<const __m128i*>(how[of]));
    all = _mm_or_si128(all, _mm_shuffle_epi8(registers[of], places));
  }
  return all;
}

template <int rows>
inline void store_pixels(uint8_t* target, const __m128i* row) {
  for (int k = 0; k < rows; ++k) {
    const __m128i pixels = shuffled<rows>(row, kShuffles<rows>.pixels[k]);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + 16 * k), pixels);
  }
}

// 2, 3 or 4 rows, whose elements come to lie side by side: r0 g0 b0 r1 g1 b1 …
template <int rows, class Load>
inline void interleave(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                       int64_t columns) {
  __m128i row[rows];
  if (columns < 16) {
    uint8_t line[16 * rows];
    for (int r = 0; r < rows; ++r) row[r] = load.part(source + r * source_stride, columns);
    store_pixels<rows>(line, row);
    std::memcpy(target, line, static_cast<size_t>(columns * rows));
    return;
  }
  for (int64_t column = 0; column < columns; column += 16) {
    const int64_t c = fitted(column, columns, 16);
    for (int r = 0; r < rows; ++r) row[r] = load.full(source + r * source_stride + c * Load::size);
    store_pixels<rows>(target + c * rows, row);
  }
}

// The way back: pixels of 2, 3 or 4 bytes, at least 16 of them, side by side in the source.
template <int columns, class Load>
inline void separate(const Load& load, const uint8_t* source, uint8_t* target, int64_t target_stride,
                     int64_t rows) {
  for (int64_t row = 0; row < rows; row += 16) {
    const int64_t r = fitted(row, rows, 16);
    __m128i pixels[columns];
    for (int k = 0; k < columns; ++k) pixels[k] = load.full(source + r * columns + 16 * k);
    for (int c = 0; c < columns; ++c) {
      const __m128i line = shuffled<columns>(pixels, kShuffles<columns>.rows[c]);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(target + c * target_stride + r), line);
    }
  }
}

template <class Load>
inline void transpose_bytes(const Load& load, const uint8_t* source, int64_t source_stride, uint8_t* target,
                            int64_t target_stride, int64_t rows, int64_t columns) {
  if (target_stride == rows && rows == 3) {
    interleave<3>(load, source, source_stride, target, columns);
  } else if (target_stride == rows && rows == 4) {
    interleave<4>(load, source, source_stride, target, columns);
  } else if (target_stride == rows && rows == 2) {
    interleave<2>(load, source, source_stride, target, columns);
  } else if (Load::size == 1 && source_stride == columns && columns == 3 && rows >= 16) {
    separate<3>(load, source, target, target_stride, rows);
  } else if (Load::size == 1 && source_stride == columns && columns == 4 && rows >= 16) {
    separate<4>(load, source, target, target_stride, rows);
  } else if (Load::size == 1 && source_stride == columns && columns == 2 && rows >= 16) {
    separate<2>(load, source, target, target_stride, rows);
  } else {
    transpose_blocks(load, source, source_stride, target, target_stride, rows, columns);
  }
}

// Stores the first n of eight words.
[[maybe_unused]] inline void store_words(uint8_t* place, __m256 value, int64_t n) {
  auto* words = reinterpret_cast<float*>(place);
  if (n == 8) {
    _mm256_storeu_ps(words, value);
  } else {
    _mm256_maskstore_ps(words, Lanes<32>::first32(n), value);
  }
}

[[maybe_unused]] inline void transpose_8(__m256* row) {
  __m256 pair[8], quad[8];
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    quad[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    quad[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xEE);
    quad[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    quad[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xEE);
  }
  for (int i = 0; i < 4; ++i) {
    row[i] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20);
    row[i + 4] = _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31);
  }
}

// 8 rows and 8 columns at most.
template <class Load>
[[gnu::always_inline]] inline void transpose_word_block(const Load& load, const uint8_t* source,
                                                        int64_t source_stride, uint8_t* target,
                                                        int64_t target_stride, int64_t row, int64_t column,
                                                        int64_t rows, int64_t columns) {
  const uint8_t* from = source + row * source_stride + column * Load::size;
  uint8_t* to = target + column * target_stride + row * 4;
  __m256 block[8];
  for (int64_t i = 0; i < 8; ++i, from += source_stride) {
    block[i] = i < rows ? load.group(from, row + i, column, columns) : _mm256_setzero_ps();
  }
  transpose_8(block);
  for (int64_t i = 0; i < columns; ++i, to += target_stride) store_words(to, block[i], rows);
}

}  // namespace
}  // namespace calib8::engine
