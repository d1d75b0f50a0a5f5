// The elementwise kernels over any vectors.
#pragma once

#include "elementwise_rules.h"
#include "elementwise_walk.h"
#include "kernels.h"
#include "lookup.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kBlock = 4 * kLanes;  // elements whose codes are stored at once

static_assert(kUnit % kBlock == 0 && kUnit % kWidth == 0);

// What all codes go through on their way out: + zero point (16 bit, saturated), clamp.
struct Finish {
  Ints zero_point, low, high;

  Finish(int64_t zero, int64_t least, int64_t most)
      : zero_point(V::set16(static_cast<int32_t>(zero))),
        low(V::set8(static_cast<int32_t>(least))),
        high(V::set8(static_cast<int32_t>(most))) {}
  void store(uint8_t* codes, Ints a, Ints b, Ints c, Ints d) const {
    const Words ab = V::add16(V::pack32(a, b), zero_point), cd = V::add16(V::pack32(c, d), zero_point);
    V::store(codes, V::clamp8(V::in_order(V::pack16(ab, cd)), low, high));
  }
};

// … where that changes nothing but what packing saturates.
struct PlainFinish {
  explicit PlainFinish(const Mul&) {}
  static bool fits(const Mul& step) { return step.output_shift == 0 && step.low == 0 && step.high == 255; }
  void store(uint8_t* codes, Ints a, Ints b, Ints c, Ints d) const {
    V::store(codes, V::in_order(V::pack16(V::pack32(a, b), V::pack32(c, d))));
  }
};

// y[i] = finish(rule(a[i], b[i])); rule and finish are copies, so that no store can change them.
template <class Rule, class Finish, class A, class B>
void map_run(Rule rule, Finish finish, const A* a, const B* b, uint8_t* y, int64_t count, int64_t place) {
  constexpr int64_t n = kLanes;
  for (int64_t i = 0; i < count; i += kBlock) {
    const Ints v0 = rule(V::numbers(a + i), V::numbers(b + i), place + i);
    const Ints v1 = rule(V::numbers(a + i + n), V::numbers(b + i + n), place + i + n);
    const Ints v2 = rule(V::numbers(a + i + 2 * n), V::numbers(b + i + 2 * n), place + i + 2 * n);
    const Ints v3 = rule(V::numbers(a + i + 3 * n), V::numbers(b + i + 3 * n), place + i + 3 * n);
    finish.store(y + i, v0, v1, v2, v3);
  }
}

template <class A, class B, class Rule>
void map(const Pair& pair, const Memory& memory, Part part, Rule rule, Finish finish,
         const uint8_t* table = nullptr) {
  walk<A, B>(pair, memory, part, [&](const A* a, const B* b, uint8_t* y, int64_t count, int64_t place) {
    map_run(rule, finish, a, b, y, count, place);
    if (table != nullptr) look_up(table, y, y, count);
  });
}

void add(const Add& step, const Memory& memory, Part part) {
  const SumRule& sum = step.sum;
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  const int64_t zero = sum.kind == SumRule::kFloatSum ? 0 : sum.output_zero;
  const Finish finish(zero + sum.output_shift, sum.low, sum.high);
  const auto apply = [&](auto rule) { map<uint8_t, uint8_t>(step.pair, memory, part, rule, finish, table); };
  if (sum.kind == SumRule::kFloatSum) {
    sum.lhs_shift != 0 || sum.rhs_shift != 0 ? apply(FloatSum<true>(sum)) : apply(FloatSum<false>(sum));
  } else if (sum.kind == SumRule::kDequantized) {
    apply(DequantizedSum(sum));
  } else if (sum.kind == SumRule::kScaled && HalfScaledSum<0>::fits(sum)) {
    apply(HalfScaledSum<0>(sum));
  } else if (sum.kind == SumRule::kScaled && HalfScaledSum<1>::fits(sum)) {
    apply(HalfScaledSum<1>(sum));
  } else if (sum.kind == SumRule::kScaled) {
    apply(ScaledSum(sum));
  } else {
    apply(AlignedSum(sum));
  }
}

template <bool kEach, class B>
void add_sums_of(const AddSums& step, const Memory& memory, Part part) {
  const Finish finish(step.zero_point, step.low, step.high);
  if (step.kind == 1) {
    map<int32_t, B>(step.pair, memory, part, DequantizedSums<kEach>(step, memory), finish);
  } else {
    map<int32_t, B>(step.pair, memory, part, AlignedSums<kEach>(step, memory), finish);
  }
}

void add_sums(const AddSums& step, const Memory& memory, Part part) {
  if (step.per_channel != 0) {
    step.rhs_size == 4 ? add_sums_of<true, int32_t>(step, memory, part)
                       : add_sums_of<true, uint8_t>(step, memory, part);
  } else {
    step.rhs_size == 4 ? add_sums_of<false, int32_t>(step, memory, part)
                       : add_sums_of<false, uint8_t>(step, memory, part);
  }
}

// One side is the same for all rows, as the gates of channels are.
struct RowMul {
  Pair pair;
  int64_t lhs_zero, rhs_zero;
  bool taken;

  explicit RowMul(const Mul& step) : pair(step.pair), lhs_zero(step.lhs_zero), rhs_zero(step.rhs_zero) {
    const bool right = same_for_all_rows(pair.rhs_strides), left = same_for_all_rows(pair.lhs_strides);
    taken = step.kind == Rescale::kFloat && (left || right);
    if (right) return;
    pair = exchanged(pair);
    std::swap(lhs_zero, rhs_zero);
  }
};

template <bool kTame, class Finish>
void mul_rows(const Mul& step, const RowMul& rows, const Memory& memory, Part part, const Finish& finish) {
  const RowProduct<kTame> rule(step, rows.lhs_zero);
  walk_rows<uint8_t>(rows.pair, rows.rhs_zero, memory, part,
                     [&](const uint8_t* a, const float* b, uint8_t* y, int64_t count, int64_t place) {
                       map_run(rule, finish, a, b, y, count, place);
                     });
}

void mul(const Mul& step, const Memory& memory, Part part) {
  const int64_t zero = step.kind == Rescale::kFloat ? 0 : step.zero_point;
  const Finish finish(zero + step.output_shift, step.low, step.high);
  if (const RowMul rows(step); rows.taken) {
    if (!RowProduct<true>::fits(step)) return mul_rows<false>(step, rows, memory, part, finish);
    if (!PlainFinish::fits(step)) return mul_rows<true>(step, rows, memory, part, finish);
    return mul_rows<true>(step, rows, memory, part, PlainFinish(step));
  }
  const auto apply = [&](auto rule) { map<uint8_t, uint8_t>(step.pair, memory, part, rule, finish); };
  if (step.kind == Rescale::kFloat) {
    apply(FloatProduct(step));
  } else if (step.kind == Rescale::kDouble) {
    apply(FixedProduct<Rescale::kDouble>(step));
  } else if (step.kind == Rescale::kSingle) {
    apply(FixedProduct<Rescale::kSingle>(step));
  } else {
    apply(FixedProduct<Rescale::kAway>(step));
  }
}

void div(const Div& step, const Memory& memory, Part part) {
  const Finish finish(step.zero_point, step.low, step.high);
  if (step.kind == Div::kFloat) {
    map<uint8_t, uint8_t>(step.pair, memory, part, FloatQuotient(step, memory), finish);
  } else {
    map<uint8_t, uint8_t>(step.pair, memory, part, FixedQuotient(step, memory), finish);
  }
}

template <bool kEach>
void requantize_each(const Requantize& step, const Memory& memory, Part part) {
  const Rescale& rule = step.rescale;
  const Pair tensors = alone(step.tensors);
  const Finish finish(rule.zero_point, rule.low, rule.high);
  const auto apply = [&](auto rescale) { map<int32_t, int32_t>(tensors, memory, part, rescale, finish); };
  if (rule.kind == Rescale::kFloat) {
    apply(FloatRescale<kEach>(rule, memory));
  } else if (rule.kind == Rescale::kDouble) {
    apply(FixedRescale<Rescale::kDouble, kEach>(rule, memory));
  } else if (rule.kind == Rescale::kSingle) {
    apply(FixedRescale<Rescale::kSingle, kEach>(rule, memory));
  } else {
    apply(FixedRescale<Rescale::kAway, kEach>(rule, memory));
  }
}

void requantize(const Requantize& step, const Memory& memory, Part part) {
  if (step.per_channel != 0) {
    requantize_each<true>(step, memory, part);
  } else {
    requantize_each<false>(step, memory, part);
  }
}

void real_rescale(const RealRescale& step, const Memory& memory, Part part) {
  const Pair tensors = alone(step.tensors);
  const Finish finish(step.zero_point, step.low, step.high);
  if (step.per_channel != 0) {
    map<int32_t, int32_t>(tensors, memory, part, RealRescaled<true>(step, memory), finish);
  } else {
    map<int32_t, int32_t>(tensors, memory, part, RealRescaled<false>(step, memory), finish);
  }
}

void real_pair(const RealPair& step, const Memory& memory, Part part) {
  const Finish finish(step.zero_point, step.low, step.high);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  const auto apply = [&](auto rule) { map<uint8_t, uint8_t>(step.pair, memory, part, rule, finish, table); };
  if (step.kind == RealPair::kSum) {
    apply(RealPairs<RealPair::kSum>(step));
  } else if (step.kind == RealPair::kDifference) {
    apply(RealPairs<RealPair::kDifference>(step));
  } else {
    apply(RealPairs<RealPair::kProduct>(step));
  }
}

void extreme(const Extreme& step, const Memory& memory, Part part) {
  const bool largest = step.largest != 0;
  walk<uint8_t, uint8_t>(step.pair, memory, part,
                         [&](const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t count, int64_t) {
                           if (largest) {
                             for (int64_t i = 0; i < count; i += kWidth)
                               V::store(y + i, V::max8(V::load(a + i), V::load(b + i)));
                           } else {
                             for (int64_t i = 0; i < count; i += kWidth)
                               V::store(y + i, V::min8(V::load(a + i), V::load(b + i)));
                           }
                         });
}

// A table per element.
inline void look_up_each(const uint8_t* tables, const uint8_t* x, uint8_t* y, int64_t count) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4, tables += 4 * 256) {
    const uint8_t y0 = tables[x[i]], y1 = tables[256 + x[i + 1]];
    const uint8_t y2 = tables[512 + x[i + 2]], y3 = tables[768 + x[i + 3]];
    y[i] = y0, y[i + 1] = y1, y[i + 2] = y2, y[i + 3] = y3;
  }
  for (; i < count; ++i, tables += 256) y[i] = tables[x[i]];
}

void lookup_per_channel(const Lookup& step, const Memory& memory, Part part) {
  const uint8_t* tables = memory.constant<uint8_t>(step.table);
  const int64_t channels = step.tensors.sizes[5];
  walk<uint8_t, uint8_t>(alone(step.tensors), memory, part,
                         [&](const uint8_t* x, const uint8_t*, uint8_t* y, int64_t count, int64_t place) {
                           for (int64_t i = 0, first = place % channels; i < count; first = 0) {
                             const int64_t row = channels - first < count - i ? channels - first : count - i;
                             look_up_each(tables + first * 256, x + i, y + i, row);
                             i += row;
                           }
                         });
}

void lookup(const Lookup& step, const Memory& memory, Part part) {
  if (step.per_channel != 0) return lookup_per_channel(step, memory, part);
  const uint8_t* table = memory.constant<uint8_t>(step.table);
  walk<uint8_t, uint8_t>(alone(step.tensors), memory, part,
                         [&](const uint8_t* x, const uint8_t*, uint8_t* y, int64_t count, int64_t) {
                           look_up(table, x, y, count);
                         });
}

void fill_elementwise(KernelTable& table) {
  set_kernel<Requantize, requantize>(table);
  set_kernel<Add, add>(table);
  set_kernel<AddSums, add_sums>(table);
  set_kernel<Mul, mul>(table);
  set_kernel<Div, div>(table);
  set_kernel<RealRescale, real_rescale>(table);
  set_kernel<RealPair, real_pair>(table);
  set_kernel<Extreme, extreme>(table);
  set_kernel<Lookup, lookup>(table);
}

}  // namespace
}  // namespace calib8::engine
