// What a thread does of a depthwise convolution: a block of channels in some of the rows.
#pragma once

#include "depthwise.h"
#if defined(__aarch64__)
#include "depthwise_rescale_neon.h"
#else
#include "depthwise_rescale_x86.h"
#endif
#include "lookup.h"
#include "rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Rows begin … end−1 (counted over all images) of the output channels from `channel` on.
struct Task {
  const Depthwise& step;
  const Memory& memory;
  int64_t channel, channels;  // at most as many as the block is wide
  int64_t begin, end;
  int64_t strips;  // of a row, in one vector; neighbours may overlap
  const uint8_t*
      table;  // applied to the codes before they are stored; null where that is no way, or for none

  // Output columns from one strip to the next, and those of a strip.
  int64_t apart() const { return step.output.columns / strips; }
  int64_t columns() const { return step.output.columns - (strips - 1) * apart(); }
  int64_t input_apart() const { return apart() * step.column_step * step.input.column_stride; }
  int64_t output_apart() const { return apart() * step.output.column_stride; }

  // Where the window of the first output of a row begins, and where its codes go.
  const uint8_t* input(int64_t row) const {
    const View& view = step.input;
    return memory.data<uint8_t>(view) +
           view.at(row / step.output.rows, row % step.output.rows * step.row_step, 0) +
           channel / step.multiplier;
  }
  int64_t place(int64_t row) const {
    return step.output.at(row / step.output.rows, row % step.output.rows, 0) + channel;
  }
  uint8_t* output(int64_t row) const { return memory.data<uint8_t>(step.output) + place(row); }
};

// Blocks of `width` channels in vectors of `length` bytes. Where these are longer, they hold several strips
// of a row, that lie `apart` bytes from each other.
template <int length, int width>
struct Block : Lanes<length> {
  using Vectors = Lanes<length>;
  using Ints = typename Vectors::Ints;
  static constexpr int kChannels = width, kStrips = length / width;

  static Ints codes(const uint8_t* from, int64_t apart) {
    if constexpr (width == length) {
      return Vectors::load(from);
    } else if constexpr (width == 16) {
      return Vectors::lanes(from, apart);
    } else {
      return Vectors::joined(Lanes<width>::load(from), Lanes<width>::load(from + apart));
    }
  }
  // Constants: bytes of all channels, or 32-bit words of one quarter.
  static Ints bytes(const uint8_t* from) { return codes(from, 0); }
  static Ints words(const uint8_t* from, int quarter) {
    from += 16 * quarter;
    if constexpr (width == length) {
      return Vectors::lanes(from, 64);
    } else if constexpr (width == 16) {
      return Vectors::lanes(from, 0);
    } else {
      const auto half = Lanes<width>::lanes(from, 64);
      return Vectors::joined(half, half);
    }
  }
  // Stores the first `channels` of the block.
  [[gnu::always_inline]] static void put(uint8_t* to, Ints codes, int64_t channels, int64_t apart) {
    if constexpr (width < length) {
      for (int s = 0; s < kStrips; ++s, to += apart) {
        if constexpr (width == 16) {
          Block<width, width>::put(to, Vectors::lane(codes, s), channels, 0);
        } else {
          Block<width, width>::put(to, Vectors::half(codes, s), channels, 0);
        }
      }
    } else if (__builtin_expect(channels == width, 1)) {
      Vectors::store(to, codes);
    } else {
      Vectors::store_some(to, codes, channels);
    }
  }
};

// Whether the codes of this instruction set go through a table before they are stored.
inline bool tables_in_registers() {
#if defined(__AVX512BW__)
  return looks_up_in_registers();
#else
  return false;
#endif
}

template <class Ints>
[[gnu::always_inline]] inline Ints through_table([[maybe_unused]] const uint8_t* table, Ints codes) {
#if defined(__AVX512BW__)
  if (table == nullptr) return codes;
  if constexpr (sizeof(Ints) == 64) {
    return looked_up(table, codes);
  } else if constexpr (sizeof(Ints) == 32) {
    return _mm512_castsi512_si256(looked_up(table, _mm512_castsi256_si512(codes)));
  } else {
    return _mm512_castsi512_si128(looked_up(table, _mm512_castsi128_si512(codes)));
  }
#else
  return codes;
#endif
}

// Where the codes of tiles go. A copy for a whole row: what a task says might change with every byte that is
// stored, as far as compilers know, and they would read it again.
struct Target {
  explicit Target(const Task& task)
      : next(task.step.output.column_stride),
        line(task.step.output.row_stride),
        apart(task.output_apart()),
        channels(task.channels),
        table(task.table) {}
  int64_t next, line, apart, channels;
  const uint8_t* table;
};

// Codes of `count` rows of `wide` outputs side by side, of which quarter(i, acc) makes the sums of a quarter:
// two quarters at a time, so that not all sums lie in registers at once.
template <class L, int count, int wide, class CodesOf, class Quarter>
[[gnu::always_inline]] inline void put_tile(const Target& target, const CodesOf& codes_of, uint8_t* output,
                                            const Quarter& quarter) {
  const auto half = [&](int i, typename L::Ints(&codes)[count][wide]) __attribute__((always_inline)) {
    typename L::Ints low[count][wide], high[count][wide];
    quarter(i, low);
    quarter(i + 1, high);
    for (int r = 0; r < count; ++r) {
      for (int x = 0; x < wide; ++x) codes[r][x] = codes_of.half(i, low[r][x], high[r][x]);
    }
  };
  typename L::Ints first[count][wide], second[count][wide];
  half(0, first);
  half(2, second);
  const auto packed = codes_of.packing();
  for (int r = 0; r < count; ++r) {
    for (int x = 0; x < wide; ++x) {
      const auto codes = through_table(target.table, packed(first[r][x], second[r][x]));
      L::put(output + r * target.line + x * target.next, codes, target.channels, target.apart);
    }
  }
}

}  // namespace
}  // namespace calib8::engine
