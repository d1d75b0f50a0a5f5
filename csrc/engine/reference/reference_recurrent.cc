// Recurrent layers in plain loops: codes, sums and gates of one unit after the other.
#include "recurrent/sequences.h"
#include "reference.h"

namespace calib8::engine {
namespace {

constexpr int64_t kBlock = Recurrent::kBlock;

// A gate of a unit among the numbers of a direction.
int64_t lane_of(const Direction& direction, int64_t gate, int64_t unit) {
  return (unit / kBlock * direction.gates + gate) * kBlock + unit % kBlock;
}

// fl(Σ codes · weights) · fl(scale · scale of the weights)
float product(const Direction& direction, const uint8_t* codes, float scale, const int8_t* weight,
              const float* scales, int64_t quads, int64_t gate, int64_t unit) {
  int32_t sum = 0;
  const int64_t block = unit / kBlock, place = unit % kBlock;
  for (int64_t quad = 0; quad < quads; ++quad) {
    const int64_t at = ((block * quads + quad) * direction.gates + gate) * kBlock + place;
    for (int64_t i = 0; i < 4; ++i) sum += (codes[4 * quad + i] - 128) * weight[4 * at + i];
  }
  const float factor = scale * scales[lane_of(direction, gate, unit)];
  return static_cast<float>(sum) * factor;
}

// One walker and what its gates read.
struct Walker {
  const Direction& direction;
  const CellScratch& scratch;
  const uint8_t* codes;
  float scale;
  const float* sums;
  float *h, *c, *other, *more;

  Walker(const Direction& d, const CellScratch& s, const Walkers& walkers, int i)
      : direction(d),
        scratch(s),
        codes(s.states + walkers.sample[i] * s.state_bytes),
        scale(walkers.scale[i]),
        sums(s.sums + walkers.row[i] * s.lanes),
        h(s.h + walkers.sample[i] * s.units()),
        c(s.c + walkers.sample[i] * s.units()),
        other(s.other + walkers.sample[i] * s.units()),
        more(s.more + walkers.sample[i] * s.units()) {}

  float u(int64_t gate, int64_t unit) const { return sums[lane_of(direction, gate, unit)]; }
  float v(int64_t gate, int64_t unit) const {
    return product(direction, codes, scale, direction.recurrent, direction.recurrent_scale,
                   direction.unit_quads, gate, unit);
  }
  float gate(const CellFunction& function, float value) const {
    const auto most = static_cast<float>(direction.step.clip);
    return value_of(function, most > 0 ? within_bounds(value, -most, most) : value);
  }
  float seen(float value, int64_t place, int64_t unit) const {
    if (direction.peephole == nullptr) return value;
    const float part = direction.peephole[(unit / kBlock * 3 + place) * kBlock + unit % kBlock] * c[unit];
    return value + part;
  }

  void lstm(int64_t unit) const {
    const CellFunctions& functions = direction.functions;
    const float i = gate(functions.f, seen(u(0, unit) + v(0, unit), 0, unit));
    const float f =
        direction.step.coupled != 0 ? 1.0F - i : gate(functions.f, seen(u(2, unit) + v(2, unit), 2, unit));
    const float g = gate(functions.g, u(3, unit) + v(3, unit));
    const float kept = f * c[unit], added = i * g;
    c[unit] = kept + added;
    const float o = gate(functions.f, seen(u(1, unit) + v(1, unit), 1, unit));
    h[unit] = o * value_of(functions.h, c[unit]);
  }

  // z and, where r comes before the product, r·h; else the new state.
  void gru(int64_t unit) const {
    const CellFunctions& functions = direction.functions;
    const float z = gate(functions.f, u(0, unit) + v(0, unit));
    const float r = gate(functions.f, u(1, unit) + v(1, unit));
    if (direction.inner_bias == nullptr) {
      other[unit] = z;
      more[unit] = r * h[unit];
      return;
    }
    const float inner = v(2, unit) + direction.inner_bias[unit];
    const float reset = r * inner;
    mix(unit, z, gate(functions.g, u(2, unit) + reset));
  }
  void gru_after_reset(int64_t unit, const uint8_t* reset, float reset_scale) const {
    const float v2 = product(direction, reset, reset_scale, direction.recurrent, direction.recurrent_scale,
                             direction.unit_quads, 2, unit);
    mix(unit, other[unit], gate(direction.functions.g, u(2, unit) + v2));
  }
  void mix(int64_t unit, float z, float n) const {
    const float fresh = (1.0F - z) * n, kept = z * h[unit];
    h[unit] = fresh + kept;
  }
};

uint32_t largest_bits(const float* values, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(values[i]) & kMagnitude;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

struct PlainOps {
  static uint32_t largest_of(const float* values, int64_t count) { return largest_bits(values, count); }

  static float code_row(const float* values, int64_t count, uint32_t largest, uint8_t* codes) {
    for (int64_t i = 0; i < (count + 3) / 4 * 4; ++i) codes[i] = 128;
    if (largest >= kInfinity) return number_of(kNotANumber);
    if (largest < kLeastCoded) return 0;
    const float factor = 127.0F / number_of(largest);
    for (int64_t i = 0; i < count; ++i) {
      const float code = within_bounds(std::rint(values[i] * factor), -127.0F, 127.0F);
      codes[i] = static_cast<uint8_t>(static_cast<int>(code) + 128);
    }
    return number_of(largest) / 127.0F;
  }

  static void multiply_inputs(const Direction& direction, const CellScratch& scratch, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      const uint8_t* codes = scratch.inputs + row * scratch.row_bytes;
      for (int64_t gate = 0; gate < direction.gates; ++gate) {
        for (int64_t unit = 0; unit < direction.step.units; ++unit) {
          const int64_t lane = lane_of(direction, gate, unit);
          const float value = product(direction, codes, scratch.scales[row], direction.weight,
                                      direction.weight_scale, direction.input_quads, gate, unit);
          scratch.sums[row * scratch.lanes + lane] = value + direction.bias[lane];
        }
      }
    }
  }

  static void advance(const Direction& direction, const CellScratch& scratch, Walkers& walkers) {
    const int64_t units = direction.step.units;
    for (int i = 0; i < walkers.count; ++i) {
      const Walker walker(direction, scratch, walkers, i);
      if (direction.step.cell == Recurrent::kLstm) {
        for (int64_t unit = 0; unit < units; ++unit) walker.lstm(unit);
      } else if (direction.step.cell == Recurrent::kGru) {
        advance_gru(walker, units);
      } else {
        for (int64_t unit = 0; unit < units; ++unit) {
          walker.h[unit] = walker.gate(direction.functions.f, walker.u(0, unit) + walker.v(0, unit));
        }
      }
      walkers.largest[i] = largest_bits(walker.h, units);
      walkers.largest_c[i] = largest_bits(walker.c, units);
    }
  }

  static void advance_gru(const Walker& walker, int64_t units) {
    for (int64_t unit = 0; unit < units; ++unit) walker.gru(unit);
    if (walker.direction.inner_bias != nullptr) return;
    // the codes of h are of no use any more
    auto* codes = const_cast<uint8_t*>(walker.codes);
    const float scale = code_row(walker.more, units, largest_bits(walker.more, units), codes);
    for (int64_t unit = 0; unit < units; ++unit) walker.gru_after_reset(unit, codes, scale);
  }
};

}  // namespace

void reference_recurrent(const Recurrent& step, const Memory& memory, Part part) {
  run_teams<PlainOps>(step, memory, part);
}

void reference_real_function(const RealFunction& step, const Memory& memory, Part part) {
  const auto* source = memory.data<float>(step.source_buffer, step.source_offset);
  auto* target = memory.data<float>(step.target_buffer, step.target_offset);
  const CellFunction function{static_cast<int32_t>(step.function), static_cast<float>(step.alpha),
                              static_cast<float>(step.beta)};
  const Range range = share(part, step.count);
  for (int64_t i = range.begin; i < range.end; ++i) target[i] = value_of(function, source[i]);
  with_one_nan(target + range.begin, range.end - range.begin);
}

}  // namespace calib8::engine
