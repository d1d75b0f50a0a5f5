// LayerNorm with vectors: sums and squares in one pass over a row, its codes in a second one.
#pragma once

#include "lanes.h"
#include "norms.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Σ of all numbers of a vector, modulo 2^32; once per row.
uint32_t total_of(Ints a) {
  uint32_t numbers[kLanes], total = 0;
  V::store(numbers, a);
  for (const uint32_t number : numbers) total += number;
  return total;
}

// Σq and Σq² of a row: a lane of squares gets 4 codes of every vector, so it stays below 2^31.
RowNorm norm_row_of(const LayerNorm& step, const uint8_t* codes) {
  const int64_t channels = step.input.channels;
  const Words ones = V::set16(1);
  Ints sums = V::all(0), squares = V::all(0);
  for (int64_t i = 0; i < channels; i += kWidth) {
    const Bytes next = V::first8(V::load(codes + i), channels - i);
    const Words low = spread_low8(next), high = spread_high8(next);
    sums = V::add_products16(sums, V::wrap_add16(low, high), ones);
    squares = V::add_products16(V::add_products16(squares, low, low), high, high);
  }
  return row_norm(step, total_of(sums), total_of(squares));
}

struct FloatNormRows {
  const float *factor, *offset;
  Floats count, low, high;
  Ints zero;

  FloatNormRows(const LayerNorm& step, const Memory& memory)
      : factor(memory.constant<float>(step.factor)),
        offset(memory.constant<float>(step.offset)),
        count(all_float(step.input.channels)),
        low(all_float(step.low - step.zero_point)),
        high(all_float(step.high - step.zero_point)),
        zero(all_int(step.zero_point)) {}

  void write(const RowNorm& row, const uint8_t* codes, uint8_t* target, int64_t channels) const {
    const Floats sum = all_float(row.sum), inverse = V::all(row.inverse);
    for (int64_t i = 0; i < channels; i += kLanes) {
      const Floats code = V::floats(V::numbers(codes + i));
      const Floats value = V::multiply(V::subtract(V::multiply(code, count), sum), inverse);
      const Floats scaled = V::multiply(value, V::numbers(factor + i));
      const Floats moved = clamped(V::add(scaled, V::numbers(offset + i)), low, high);
      V::store_numbers(target + i, V::add32(V::rounded(moved), zero), channels - i);
    }
  }
};

// kFixed: every other channel in the lower halves of 64 bits, then the ones between.
struct FixedNormRows {
  const int32_t *factor, *offset, *shift;
  Ints low, high, zero;
  Ints one = V::set64(1), offset_one = V::all(1 << 30), lower = V::set64(0xFFFFFFFF);

  FixedNormRows(const LayerNorm& step, const Memory& memory)
      : factor(memory.constant<int32_t>(step.factor)),
        offset(memory.constant<int32_t>(step.offset)),
        shift(memory.constant<int32_t>(step.shift)),
        low(all_int(step.low - step.zero_point)),
        high(all_int(step.high - step.zero_point)),
        zero(all_int(step.zero_point)) {}

  // floor((x + 2^(h − 1)) / 2^h) for h − 1, of numbers at the even places.
  Ints steps(Ints values, Ints factors, Ints offsets, Ints less) const {
    const Ints sums = V::add64(V::even_products(values, factors), V::even_products(offsets, offset_one));
    return V::limit64(V::right64(V::add64(V::right64(sums, less), one), one));
  }
  void write(const RowNorm& row, const uint8_t* codes, uint8_t* target, int64_t channels) const {
    const Ints count = all_int(row.count), sum = all_int(row.sum), quotient = all_int(row.quotient);
    const Ints half = V::set64(int64_t{1} << (row.shift - 1)), right = V::set64(row.shift);
    for (int64_t i = 0; i < channels; i += kLanes) {
      const Ints centred = V::subtract32(V::multiply32(V::numbers(codes + i), count), sum);
      const Ints even = V::right64(V::add64(V::even_products(centred, quotient), half), right);
      const Ints odd = V::right64(V::add64(V::even_products(V::odd_to_even(centred), quotient), half), right);
      const Ints factors = V::numbers(factor + i), offsets = V::numbers(offset + i);
      const Ints less = V::subtract32(V::numbers(shift + i), V::all(1));
      const Ints first = steps(even, factors, offsets, V::and_bits(less, lower));
      const Ints other = steps(odd, V::odd_to_even(factors), V::odd_to_even(offsets), V::odd_to_even(less));
      const Ints result = V::min32(V::max32(V::lower_halves(first, other), low), high);
      V::store_numbers(target + i, V::add32(result, zero), channels - i);
    }
  }
};

template <class Rows>
void norm_rows(const LayerNorm& step, const Memory& memory, Part part) {
  const Rows rows(step, memory);
  const int64_t channels = step.input.channels;
  each_norm_row(step, memory, part, [&](const uint8_t* codes, uint8_t* target) {
    rows.write(norm_row_of(step, codes), codes, target, channels);
  });
}

void layer_norm(const LayerNorm& step, const Memory& memory, Part part) {
  if (step.kind == LayerNorm::kFloat) {
    norm_rows<FloatNormRows>(step, memory, part);
  } else {
    norm_rows<FixedNormRows>(step, memory, part);
  }
}

}  // namespace
}  // namespace calib8::engine
