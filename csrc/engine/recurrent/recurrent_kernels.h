// Recurrent layers with vectors: gates of a group of units are computed in registers from their sums.
#pragma once

#include "cell_lanes.h"
#include "cell_products.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// All bits of the lanes that are units, none of those that fill up the last block.
alignas(64) constexpr int32_t kUnitMasks[2 * Recurrent::kBlock] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                                   -1, -1, -1, -1, -1, -1, -1, -1};

// A RealFunction; what is left behind the last vector goes through one of zeros.
inline void function_of_values(const RealFunction& step, const Memory& memory, Part part) {
  const auto* source = memory.data<float>(step.source_buffer, step.source_offset);
  auto* target = memory.data<float>(step.target_buffer, step.target_offset);
  const CellFunction function{static_cast<int32_t>(step.function), static_cast<float>(step.alpha),
                              static_cast<float>(step.beta)};
  const Range range = share(part, step.count, kLanes);
  int64_t i = range.begin;
  for (; i + kLanes <= range.end; i += kLanes) {
    V::store(target + i, V::as_ints(value_of(function, V::numbers(source + i))));
  }
  if (i < range.end) {
    float rest[kLanes] = {};
    std::copy(source + i, source + range.end, rest);
    V::store(rest, V::as_ints(value_of(function, V::numbers(rest))));
    std::copy(rest, rest + (range.end - i), target + i);
  }
  with_one_nan(target + range.begin, range.end - range.begin);
}

// A group of units of some walkers.
struct Group {
  const Direction& direction;
  const CellScratch& scratch;
  Walkers& walkers;
  int64_t block, unit;  // the first unit of the group
  Ints mask;
  Floats most;

  Group(const Direction& d, const CellScratch& s, Walkers& w, int64_t number)
      : direction(d),
        scratch(s),
        walkers(w),
        block(number / kGroups),
        unit(number * kLanes),
        mask(V::load(kUnitMasks + masked(d.step.units - unit))),
        most(V::all(static_cast<float>(d.step.clip))) {}
  static int64_t masked(int64_t left) {
    const int64_t used = left < 0 ? 0 : left > Recurrent::kBlock ? Recurrent::kBlock : left;
    return Recurrent::kBlock - used;
  }

  int64_t lane(int gate) const {
    return (block * direction.gates + gate) * Recurrent::kBlock + unit % Recurrent::kBlock;
  }
  Floats u(int walker, int gate) const {
    return V::numbers(scratch.sums + walkers.row[walker] * scratch.lanes + lane(gate));
  }
  float* of(float* states, int walker) const {
    return states + walkers.sample[walker] * scratch.units() + unit;
  }
  Floats clipped(Floats x) const {
    if (direction.step.clip == 0) return x;
    const Floats least = V::bits(V::xor_bits(V::as_ints(most), V::all(INT32_MIN)));
    return at_most(at_least(x, least), most);
  }
  Floats gate(const CellFunction& function, Floats x) const { return value_of(function, clipped(x)); }
  Floats seen(Floats x, Floats c, int place) const {
    if (direction.peephole == nullptr) return x;
    const float* weights = direction.peephole + (block * 3 + place) * Recurrent::kBlock;
    return V::add(x, V::multiply(V::numbers(weights + unit % Recurrent::kBlock), c));
  }
  Floats real_units(Floats x) const { return V::bits(V::and_bits(V::as_ints(x), mask)); }
  void keep(float* states, int walker, Floats x) const {
    V::store(of(states, walker), V::as_ints(real_units(x)));
  }
};

// The largest magnitudes of the walkers so far, as bits.
struct Peaks {
  Ints h[kCellSamples], c[kCellSamples];

  Peaks() {
    for (int64_t i = 0; i < kCellSamples; ++i) h[i] = c[i] = V::zero();
  }
  static void see(Ints& peak, Floats masked) { peak = V::max32(peak, V::as_ints(magnitude_of(masked))); }
  void tell(Walkers& walkers) const {
    for (int i = 0; i < walkers.count; ++i) {
      walkers.largest[i] = largest_lane(h[i]);
      walkers.largest_c[i] = largest_lane(c[i]);
    }
  }
};

inline void lstm_unit(const Group& group, Peaks& peaks, int i, const Floats* x) {
  const CellFunctions& functions = group.direction.functions;
  const Floats before = V::numbers(group.of(group.scratch.c, i));
  const Floats in = group.gate(functions.f, group.seen(x[0], before, 0));
  const Floats forget = group.direction.step.coupled != 0
                            ? V::subtract(V::all(1.0F), in)
                            : group.gate(functions.f, group.seen(x[2], before, 2));
  const Floats fresh = group.gate(functions.g, x[3]);
  const Floats c = group.real_units(V::add(V::multiply(forget, before), V::multiply(in, fresh)));
  const Floats out = group.gate(functions.f, group.seen(x[1], c, 1));
  const Floats h = group.real_units(V::multiply(out, value_of(functions.h, c)));
  group.keep(group.scratch.c, i, c);
  group.keep(group.scratch.h, i, h);
  Peaks::see(peaks.c[i], c);
  Peaks::see(peaks.h[i], h);
}

inline void mix_unit(const Group& group, Peaks& peaks, int i, Floats z, Floats n) {
  const Floats before = V::numbers(group.of(group.scratch.h, i));
  const Floats fresh = V::multiply(V::subtract(V::all(1.0F), z), n);
  const Floats h = group.real_units(V::add(fresh, V::multiply(z, before)));
  group.keep(group.scratch.h, i, h);
  Peaks::see(peaks.h[i], h);
}

// v of the formulas is added to u; of a GRU whose r comes behind the product that of the last gate is not.
inline void gru_unit(const Group& group, Peaks& peaks, int i, const Floats* x, Floats inner) {
  const CellFunctions& functions = group.direction.functions;
  const Floats z = group.gate(functions.f, x[0]), r = group.gate(functions.f, x[1]);
  if (group.direction.inner_bias == nullptr) {
    group.keep(group.scratch.other, i, z);
    group.keep(group.scratch.more, i, V::multiply(r, V::numbers(group.of(group.scratch.h, i))));
    return;
  }
  const Floats biased = V::add(inner, V::numbers(group.direction.inner_bias + group.unit));
  mix_unit(group, peaks, i, z, group.gate(functions.g, V::add(group.u(i, 2), V::multiply(r, biased))));
}

// Sums of h of all walkers for the gates first … first + gates − 1 of a group, scaled.
template <int rows, int first, int gates>
void state_products(const Group& group, const uint8_t* const* codes, const float* scales,
                    Floats (*v)[gates]) {
  const Direction& direction = group.direction;
  const int64_t stride = 64 * direction.gates, lane = group.lane(first);
  const int8_t* weights = direction.recurrent + group.block * direction.unit_quads * stride + 64 * first +
                          group.unit % Recurrent::kBlock * 4;
  Ints acc[rows][gates];
  add_products<rows, gates>(codes, weights, stride, direction.unit_quads, direction.recurrent_sum + lane,
                            acc);
  for (int i = 0; i < rows; ++i) {
    for (int gate = 0; gate < gates; ++gate) {
      const float* of_weights = direction.recurrent_scale + lane + gate * Recurrent::kBlock;
      v[i][gate] = scaled_sum(acc[i][gate], scales[i], of_weights);
    }
  }
}

// Codes of some walkers, from the first one on.
template <int rows>
struct Codes {
  const uint8_t* codes[rows];

  Codes(const CellScratch& scratch, const Walkers& walkers, int first) {
    for (int i = 0; i < rows; ++i) {
      codes[i] = scratch.states + walkers.sample[first + i] * scratch.state_bytes;
    }
  }
};

template <int rows>
void advance_rows(const Group& group, Peaks& peaks, int first) {
  const Codes<rows> of(group.scratch, group.walkers, first);
  const float* scales = group.walkers.scale + first;
  const int64_t cell = group.direction.step.cell;
  if (cell == Recurrent::kLstm) {
    Floats x[rows][4];
    state_products<rows, 0, 4>(group, of.codes, scales, x);
    for (int i = 0; i < rows; ++i) {
      for (int gate = 0; gate < 4; ++gate) x[i][gate] = V::add(group.u(first + i, gate), x[i][gate]);
      lstm_unit(group, peaks, first + i, x[i]);
    }
  } else if (cell == Recurrent::kGru) {
    Floats x[rows][3];
    state_products<rows, 0, 3>(group, of.codes, scales, x);
    for (int i = 0; i < rows; ++i) {
      for (int gate = 0; gate < 2; ++gate) x[i][gate] = V::add(group.u(first + i, gate), x[i][gate]);
      gru_unit(group, peaks, first + i, x[i], x[i][2]);
    }
  } else {
    Floats x[rows][1];
    state_products<rows, 0, 1>(group, of.codes, scales, x);
    for (int i = 0; i < rows; ++i) {
      const Floats sum = V::add(group.u(first + i, 0), x[i][0]);
      const Floats h = group.real_units(group.gate(group.direction.functions.f, sum));
      group.keep(group.scratch.h, first + i, h);
      Peaks::see(peaks.h[first + i], h);
    }
  }
}

// The last gate of a GRU whose r comes before the product; the scales are those of r·h.
template <int rows>
void reset_rows(const Group& group, Peaks& peaks, int first, const float* scales) {
  const Codes<rows> of(group.scratch, group.walkers, first);
  Floats v[rows][1];
  state_products<rows, 2, 1>(group, of.codes, scales + first, v);
  for (int i = 0; i < rows; ++i) {
    const int walker = first + i;
    const Floats n = group.gate(group.direction.functions.g, V::add(group.u(walker, 2), v[i][0]));
    mix_unit(group, peaks, walker, V::numbers(group.of(group.scratch.other, walker)), n);
  }
}

// Walkers by as many as registers hold, for all groups.
template <class Some>
void each_tile(const Direction& direction, const CellScratch& scratch, Walkers& walkers, Some some) {
  for (int64_t number = 0; number < direction.blocks * kGroups; ++number) {
    const Group group(direction, scratch, walkers, number);
    some(group);
  }
}

template <class Tile>
void by_tiles(int count, Tile tile) {
  int first = 0;
  if constexpr (kRowsAtATime >= 4) {
    for (; first + 4 <= count; first += 4) tile(std::integral_constant<int, 4>(), first);
  }
  for (; first + 2 <= count; first += 2) tile(std::integral_constant<int, 2>(), first);
  if (first < count) tile(std::integral_constant<int, 1>(), first);
}

struct LaneOps {
  static uint32_t largest_of(const float* values, int64_t count) { return largest_magnitude(values, count); }

  static float code_row(const float* values, int64_t count, uint32_t largest, uint8_t* codes) {
    return code_lanes(values, count, largest, codes);
  }

  static void multiply_inputs(const Direction& direction, const CellScratch& scratch, int64_t rows) {
    if (direction.gates == 4) return multiply_inputs_of<4>(direction, scratch, rows);
    if (direction.gates == 3) return multiply_inputs_of<3>(direction, scratch, rows);
    multiply_inputs_of<1>(direction, scratch, rows);
  }

  static void advance(const Direction& direction, const CellScratch& scratch, Walkers& walkers) {
    Peaks peaks;
    each_tile(direction, scratch, walkers, [&](const Group& group) {
      by_tiles(walkers.count, [&](auto rows, int first) { advance_rows<rows()>(group, peaks, first); });
    });
    if (direction.step.cell == Recurrent::kGru && direction.inner_bias == nullptr) {
      float scales[kCellSamples];
      for (int i = 0; i < walkers.count; ++i) {
        uint8_t* codes = scratch.states + walkers.sample[i] * scratch.state_bytes;
        const float* reset = scratch.more + walkers.sample[i] * scratch.units();
        const int64_t units = direction.step.units;
        scales[i] = code_lanes(reset, units, largest_magnitude(reset, units), codes);
      }
      each_tile(direction, scratch, walkers, [&](const Group& group) {
        by_tiles(walkers.count,
                 [&](auto rows, int first) { reset_rows<rows()>(group, peaks, first, scales); });
      });
    }
    peaks.tell(walkers);
  }
};

}  // namespace
}  // namespace calib8::engine
