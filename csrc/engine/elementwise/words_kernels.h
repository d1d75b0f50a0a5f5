// Sums, products and tables of codes of which some have 16 bits, over any vectors.
//
//   numbers of 32 bits → rule → clamped in float32, or in int32 → the zero point → packed
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "elementwise_rules.h"
#include "elementwise_walk.h"
#include "kernels.h"
#include "lanes_double.h"
#include "reference/reference.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kTaken = 4 * kLanes;  // elements whose codes are stored at once
static_assert(kUnit % kTaken == 0);

// What a rule gives becomes codes.
struct WordsEnd {
  Floats least_value, most_value;
  Ints least, most, zero_point;

  WordsEnd(int64_t zero, int64_t low, int64_t high)
      : least_value(all_float(low - zero)),
        most_value(all_float(high - zero)),
        least(all_int(low - zero)),
        most(all_int(high - zero)),
        zero_point(all_int(zero)) {}
  [[gnu::always_inline]] Ints code(Floats value) const {
    return V::add32(V::rounded(clamped(value, least_value, most_value)), zero_point);
  }
  [[gnu::always_inline]] Ints code(Ints value) const {
    return V::add32(V::min32(V::max32(value, least), most), zero_point);
  }

  static void store(uint8_t* to, Ints a, Ints b, Ints c, Ints d) {
    V::store(to, V::in_order(V::pack16(V::pack32(a, b), V::pack32(c, d))));
  }
  static void store(int16_t* to, Ints a, Ints b, Ints c, Ints d) {
    V::store(to, V::words_in_order(V::pack32(a, b)));
    V::store(to + 2 * kLanes, V::words_in_order(V::pack32(c, d)));
  }
};

// A rule of float32 before it is rounded.
template <class Rule>
struct Unrounded : Rule {
  using Rule::Rule;
  [[gnu::always_inline]] Floats operator()(Ints a, Ints b, int64_t) const { return Rule::value(a, b); }
};

// (a·lhs ± b·rhs + 2^(right_shift−1)) >> right_shift, of products up to 2^47: exact in float64, or so far
// from whole numbers that the last bits do not matter (shifts above 48, where the result is 0).
struct LongSum {
  Doubles lhs, rhs, fixed, low, high;

  explicit LongSum(const SumRule& rule)
      : low(all_double(-(int64_t{1} << 30))), high(all_double(int64_t{1} << 30)) {
    const int64_t right = rule.negative != 0 ? -rule.rhs_multiplier : rule.rhs_multiplier;
    const int64_t zeros =
        (rule.lhs_zero + rule.lhs_shift) * rule.lhs_multiplier + (rule.rhs_zero + rule.rhs_shift) * right;
    const auto scaled = [&](int64_t value) {
      return std::ldexp(static_cast<double>(value), -static_cast<int>(rule.right_shift));
    };
    lhs = all_double(scaled(rule.lhs_multiplier)), rhs = all_double(scaled(right));
    fixed = all_double(0.5 - scaled(zeros));
  }
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, int64_t) const {
    return floors(clamped(multiply_add(doubles(a), lhs, multiply_add(doubles(b), rhs, fixed)), low, high));
  }
};

// The same in words, with each multiplier as 2^16 times an upper and a signed lower part:
//
//   s + half − zeros = 2^16·upper + lower, then (upper + (lower >> 16)) >> (right_shift − 16)
//
// Both parts fit int32 where the whole stays below 2^47, and are one instruction each of pairs of words.
struct WordSum {
  Words upper, lower;  // multipliers of both operands, in turns
  Ints upper_start, lower_start, right, zero_point;
  Words low, high;

  static bool fits(const SumRule& rule) {
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t more = more_of(rule), left = rule.lhs_multiplier, other = rule.rhs_multiplier;
    if (left > kMost >> more || other > kMost >> more || rule.right_shift > 46) return false;
    const int64_t half = int64_t{1} << (rule.right_shift + more - 1);
    return ((left + other) << (16 + more)) + half < int64_t{1} << 47 &&
           std::abs(lower_of(left << more)) + std::abs(lower_of(other << more)) < UINT16_MAX;
  }
  explicit WordSum(const SumRule& rule)
      : right(all_int(rule.right_shift + more_of(rule) - 16)),
        zero_point(all_int(rule.output_zero + rule.output_shift)),
        low(V::set16(static_cast<int32_t>(rule.low))),
        high(V::set16(static_cast<int32_t>(rule.high))) {
    const int64_t more = more_of(rule), left = rule.lhs_multiplier << more;
    const int64_t other =
        (rule.negative != 0 ? -rule.rhs_multiplier : rule.rhs_multiplier) * (int64_t{1} << more);
    const int64_t start = (int64_t{1} << (rule.right_shift + more - 1)) -
                          (rule.lhs_zero + rule.lhs_shift) * left - (rule.rhs_zero + rule.rhs_shift) * other;
    upper = both(upper_of(left), upper_of(other)), lower = both(lower_of(left), lower_of(other));
    upper_start = all_int(start >> 16), lower_start = all_int(start & 0xffff);
  }
  // Words of codes.
  [[gnu::always_inline]] Words operator()(Words a, Words b) const {
    const Words first = V::low16(a, b), second = V::high16(a, b);
    const Words words = V::pack32(V::add32(sum(first), zero_point), V::add32(sum(second), zero_point));
    return V::smaller16(V::larger16(words, low), high);
  }

 private:
  // What shorter shifts, and the multipliers, are made longer by.
  static int64_t more_of(const SumRule& rule) {
    return rule.right_shift < kLeastShift ? kLeastShift - rule.right_shift : 0;
  }
  static constexpr int64_t kLeastShift = 18;  // what is shifted leaves room for a zero point
  static int64_t lower_of(int64_t multiplier) { return static_cast<int16_t>(multiplier & 0xffff); }
  static int64_t upper_of(int64_t multiplier) { return (multiplier - lower_of(multiplier)) >> 16; }
  static Words both(int64_t a, int64_t b) { return all_int(b * 65536 + (a & 0xffff)); }
  [[gnu::always_inline]] Ints sum(Words pairs) const {
    const Ints less = V::right<16>(V::add_products16(lower_start, pairs, lower));
    return V::right(V::add32(V::add_products16(upper_start, pairs, upper), less), right);
  }
};

// y[i] = rule(a[i], b[i]) of words.
template <class A, class B, class Y>
void map_word_sum(const Pair& pair, const Memory& memory, Part part, const WordSum& of) {
  constexpr int64_t kWords = kWidth / 2;
  walk<A, B, Y>(pair, memory, part, [&](const A* a, const B* b, Y* y, int64_t count, int64_t) {
    const WordSum rule = of;
    for (int64_t i = 0; i < count; i += 2 * kWords) {
      const Words first = rule(V::numbers16(a + i), V::numbers16(b + i));
      const Words second = rule(V::numbers16(a + i + kWords), V::numbers16(b + i + kWords));
      if constexpr (sizeof(Y) == 2) {
        V::store(y + i, first);
        V::store(y + i + kWords, second);
      } else {
        V::store(y + i, V::words_in_order(V::pack16(first, second)));
      }
    }
  });
}

// (a·b·multiplier + 2^(right−1)) >> right, of products of 16-bit codes.
struct LongProduct {
  Ints lhs_zero, rhs_zero;
  ExactFloor floor;
  Doubles low, high;

  explicit LongProduct(const WideMul& step)
      : lhs_zero(all_int(step.lhs_zero)),
        rhs_zero(all_int(step.rhs_zero)),
        floor(step.multiplier, 31 - step.exponent),
        low(all_double(-(int64_t{1} << 30))),
        high(all_double(int64_t{1} << 30)) {}
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, int64_t) const {
    const Doubles left = doubles(V::subtract32(a, lhs_zero)), right = doubles(V::subtract32(b, rhs_zero));
    return floor(multiply(left, right), low, high);
  }
};

// y[i] = end(rule(a[i], b[i])); rule and end are copies, so that no store can change them.
template <class A, class B, class Y, class Rule>
void map_words(const Pair& pair, const Memory& memory, Part part, const Rule& of, const WordsEnd& ends) {
  walk<A, B, Y>(pair, memory, part, [&](const A* a, const B* b, Y* y, int64_t count, int64_t place) {
    const Rule rule = of;
    const WordsEnd end = ends;
    for (int64_t i = 0; i < count; i += kTaken) {
      const auto code = [&](int64_t at) __attribute__((always_inline)) {
        return end.code(rule(V::numbers(a + at), V::numbers(b + at), place + at));
      };
      WordsEnd::store(y + i, code(i), code(i + kLanes), code(i + 2 * kLanes), code(i + 3 * kLanes));
    }
  });
}

// apply(codes of the left operand, of the right one, of the output), values of their types.
template <class Step, class Apply>
void with_types(const Step& step, const Apply& apply) {
  const auto with_output = [&](auto a, auto b) {
    step.output_size == 2 ? apply(a, b, int16_t{}) : apply(a, b, uint8_t{});
  };
  const auto with_rhs = [&](auto a) {
    step.rhs_size == 2 ? with_output(a, int16_t{}) : with_output(a, uint8_t{});
  };
  step.lhs_size == 2 ? with_rhs(int16_t{}) : with_rhs(uint8_t{});
}

template <class Step, class Rule>
void map_rule(const Step& step, const Memory& memory, Part part, const Rule& rule, const WordsEnd& end) {
  with_types(step, [&](auto a, auto b, auto y) {
    map_words<decltype(a), decltype(b), decltype(y)>(step.pair, memory, part, rule, end);
  });
}

// Operands of 8 bits.
template <class Step, class Rule>
void map_bytes(const Step& step, const Memory& memory, Part part, const Rule& rule, const WordsEnd& end) {
  step.output_size == 2 ? map_words<uint8_t, uint8_t, int16_t>(step.pair, memory, part, rule, end)
                        : map_words<uint8_t, uint8_t, uint8_t>(step.pair, memory, part, rule, end);
}

void wide_add(const WideAdd& step, const Memory& memory, Part part) {
  const SumRule& sum = step.sum;
  const int64_t zero = sum.kind == SumRule::kFloatSum ? 0 : sum.output_zero;
  const WordsEnd end(zero + sum.output_shift, sum.low, sum.high);
  if (sum.kind == SumRule::kFloatSum)
    return map_rule(step, memory, part, Unrounded<FloatSum<true>>(sum), end);
  if (sum.kind == SumRule::kDequantized) {
    return map_rule(step, memory, part, Unrounded<DequantizedSum>(sum), end);
  }
  if (sum.kind == SumRule::kScaled) {
    if (step.lhs_size == 2 || step.rhs_size == 2) return reference_wide_add(step, memory, part);
    return map_bytes(step, memory, part, ScaledSum(sum), end);
  }
  if (!WordSum::fits(sum)) return map_rule(step, memory, part, LongSum(sum), end);
  with_types(step, [&](auto a, auto b, auto y) {
    map_word_sum<decltype(a), decltype(b), decltype(y)>(step.pair, memory, part, WordSum(sum));
  });
}

void wide_mul(const WideMul& step, const Memory& memory, Part part) {
  const int64_t zero = step.kind == Rescale::kFloat ? 0 : step.zero_point;
  const WordsEnd end(zero + step.output_shift, step.low, step.high);
  if (step.kind == Rescale::kFloat) return map_rule(step, memory, part, Unrounded<FloatProduct>(step), end);
  if (step.kind == Rescale::kSingle) return map_rule(step, memory, part, LongProduct(step), end);
  if (step.kind == Rescale::kDouble) {
    if (step.lhs_size == 2 || step.rhs_size == 2) return reference_wide_mul(step, memory, part);
    return map_bytes(step, memory, part, FixedProduct<Rescale::kDouble>(step), end);
  }
  map_bytes(step, memory, part, FixedProduct<Rescale::kAway>(step), end);
}

// Four codes to a load: runs are multiples of kUnit.
template <class Y>
void look_up_run(const Y* table, int64_t, const int16_t* x, Y* y, int64_t count, int64_t) {
  for (int64_t i = 0; i < count; i += 4) {
    uint64_t codes;
    std::memcpy(&codes, x + i, sizeof codes);
    codes ^= 0x8000'8000'8000'8000;  // from −2^15 … to 0 …
    y[i] = table[codes & 0xffff], y[i + 1] = table[codes >> 16 & 0xffff];
    y[i + 2] = table[codes >> 32 & 0xffff], y[i + 3] = table[codes >> 48];
  }
}

#if defined(__AVX512BW__)
// 256 entries of 16 bits in eight registers: each pair of them has 64.
inline void look_up_in_registers(const int16_t* table, const uint8_t* x, int16_t* y, int64_t count) {
  Words rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = V::load(table + 32 * i);
  for (int64_t i = 0; i < count; i += 32) {
    const Words code = V::numbers16(x + i);
    const __mmask32 bit6 = _mm512_movepi16_mask(V::left16<9>(code)),
                    bit7 = _mm512_movepi16_mask(V::left16<8>(code));
    const auto quarter = [&](int q) { return _mm512_permutex2var_epi16(rows[2 * q], code, rows[2 * q + 1]); };
    const Words lower = _mm512_mask_blend_epi16(bit6, quarter(0), quarter(1));
    const Words upper = _mm512_mask_blend_epi16(bit6, quarter(2), quarter(3));
    V::store(y + i, _mm512_mask_blend_epi16(bit7, lower, upper));
  }
}
#endif

// Elements of one axis, with a table each where `channels` is not 0.
template <class X, class Y>
void look_up_run(const Y* table, int64_t channels, const X* x, Y* y, int64_t count, int64_t place) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(X) == 1 && sizeof(Y) == 2) {
    if (channels == 0) return look_up_in_registers(table, x, y, count);
  }
#endif
  if (channels == 0) {
    for (int64_t i = 0; i < count; ++i) y[i] = table[x[i]];
    return;
  }
  for (int64_t i = 0, channel = place % channels; i < count; ++i) {
    y[i] = table[channel * 256 + x[i]];
    if (++channel == channels) channel = 0;
  }
}

void wide_lookup(const WideLookup& step, const Memory& memory, Part part) {
  const int64_t channels = step.per_channel != 0 ? step.tensors.sizes[5] : 0;
  const auto apply = [&](auto code, auto result) {
    using X = decltype(code);
    using Y = decltype(result);
    const Y* table = memory.constant<Y>(step.table);
    walk<X, X, Y>(alone(step.tensors), memory, part,
                  [&](const X* x, const X*, Y* y, int64_t count, int64_t place) {
                    look_up_run(table, channels, x, y, count, place);
                  });
  };
  const auto with_output = [&](auto code) {
    step.output_size == 2 ? apply(code, int16_t{}) : apply(code, uint8_t{});
  };
  step.input_size == 2 ? with_output(int16_t{}) : with_output(uint8_t{});
}

void fill_words(KernelTable& table) {
  set_kernel<WideAdd, wide_add>(table);
  set_kernel<WideMul, wide_mul>(table);
  set_kernel<WideLookup, wide_lookup>(table);
}

}  // namespace
}  // namespace calib8::engine
