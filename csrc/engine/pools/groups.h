// GroupNorm: what the sums of a group of channels make of its codes (docs/numerics.md).
//
//   n codes q of a group: the pixels of an image times the channels of the group; zero points cancel
//   V = n·Σq² − (Σq)²,   c = ⌊Σq / n + 1/2⌋,   e = Σq − n·c                  n ≤ 2^23: V < 2^60, |e| ≤ n/2
//   kFloat   r = 1 / sqrt(V + ε),   a = fl(n·r·factor),   b = fl(offset − e·r·factor)
//            code = rint(fl(fl((q − c)·a) + b)) + z_y
//   kFixed   the same with a·2^h and b·2^h as numbers below 2^22 and 2^30, h a shift of every channel:
//            code = ((q·a + b − c·a + 2^(h − 1)) >> h) + z_y
//
// V = 0 makes a 0. Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include "norms.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// What all codes of one group have in common.
struct Group {
  int64_t count, centre, rest;  // n, c, e
  double inverse = 0;           // kFloat: r
  int64_t gain = 0;             // kFixed: n / sqrt(V + ε) = gain / 2^places, 2^30 … 2^31 − 1, or 0
  int64_t places = 0;
  int64_t part = 0;  // kFixed: e / n with 22 fraction bits
};

constexpr int64_t kPartBits = 22;
constexpr int64_t kMostGain = int64_t{1} << 21, kMostOffset = int64_t{1} << 29;

// `sum` is Σq, `squares` Σq².
[[maybe_unused]] inline Group group_of(const GroupNorm& step, int64_t sum, int64_t squares) {
  const int64_t n = step.group_codes();
  Group group{n, (2 * sum + n) / (2 * n), 0};
  group.rest = sum - n * group.centre;
  const int64_t spread = n * squares - sum * sum;
  if (spread == 0) return group;
  if (step.kind == GroupNorm::kFloat) {
    group.inverse = 1.0 / std::sqrt(static_cast<double>(spread) + step.epsilon);
    return group;
  }
  const int64_t wide = (spread << step.epsilon_bits) + step.whole_epsilon;
  const int64_t k = (__builtin_clzll(static_cast<uint64_t>(wide)) - 2) >> 1;
  const int64_t root = floor_of_root(k < 0 ? wide >> 2 : wide << (2 * k));  // 2^30 … 2^31 − 1
  const int64_t product = n * (((int64_t{1} << 61) - 1) / root);            // 2^30 … 2^54
  const int64_t left = 33 - __builtin_clzll(static_cast<uint64_t>(product));
  group.gain = product >> left;
  group.places = 61 - step.epsilon_bits / 2 - k - left;
  const int64_t twice = 2 * group.rest * (int64_t{1} << kPartBits) + n;  // floor of the quotient by 2·n
  group.part = twice >= 0 ? twice / (2 * n) : -((2 * n - 1 - twice) / (2 * n));
  return group;
}

// (x + 2^(right − 1)) >> right within ±most, for any shift; `least` is the smallest that cannot overflow.
[[maybe_unused]] inline int64_t rounded_right(int64_t x, int64_t right, int64_t least, int64_t most) {
  if (x == 0 || right > 62) return 0;
  if (right < least) return x < 0 ? -most : most;
  return clamped((x + (int64_t{1} << (right - 1))) >> right, -most, most);
}

// kFloat: the factor and offset of a channel.
struct FloatChannel {
  float factor, offset;
};
[[maybe_unused]] inline FloatChannel float_channel(const GroupNorm& step, const Memory& memory,
                                                   const Group& group, int64_t channel) {
  const double factor = memory.constant<float>(step.factor)[channel];
  const double offset = memory.constant<float>(step.offset)[channel];
  const double gain = static_cast<double>(group.count) * group.inverse;
  const double rest = static_cast<double>(group.rest) * group.inverse;
  return {static_cast<float>(gain * factor), static_cast<float>(offset - rest * factor)};
}

// kFixed: (q·factor + offset) >> shift, the half included.
struct FixedChannel {
  int32_t factor, offset, shift;
};
[[maybe_unused]] inline FixedChannel fixed_channel(const GroupNorm& step, const Memory& memory,
                                                   const Group& group, int64_t channel) {
  const int64_t multiplier = memory.constant<int32_t>(step.factor)[channel];
  const int64_t offset = memory.constant<int32_t>(step.offset)[channel];
  const int64_t product = group.gain * multiplier;  // below 2^62
  const int64_t places = group.places + memory.constant<int32_t>(step.factor_shift)[channel];
  const int64_t offset_places = memory.constant<int32_t>(step.offset_shift)[channel];
  const int64_t room = product == 0 ? 30 : places - 41;  // 2^8·|factor| stays below 2^29
  const int64_t offset_room = offset == 0 ? 30 : offset_places - 2;
  const int64_t shift = clamped(room < offset_room ? room : offset_room, 1, 30);
  const int64_t a = rounded_right(product, places - shift, 41, kMostGain);
  const int64_t b = rounded_right(offset, offset_places - shift, 2, kMostOffset);
  const int64_t rest = (group.part * a + (int64_t{1} << (kPartBits - 1))) >> kPartBits;
  const int64_t moved = b - rest - group.centre * a + (int64_t{1} << (shift - 1));
  return {static_cast<int32_t>(a), static_cast<int32_t>(moved), static_cast<int32_t>(shift)};
}

// Shares of an image: groups that have at least as many channels together as a cache line has codes.
constexpr int64_t kSharedChannels = 64;
struct GroupBlocks {
  int64_t size, groups, count;  // channels of a group, groups of a block, blocks of an image

  explicit GroupBlocks(const GroupNorm& step)
      : size(step.input.channels / step.groups),
        groups(size >= kSharedChannels ? 1 : (kSharedChannels + size - 1) / size),
        count((step.groups + groups - 1) / groups) {}
};

// Calls make(image, first, end) for the images and groups of the share that falls to a part.
template <class Make>
void each_group_block(const GroupNorm& step, Part part, Make make) {
  const GroupBlocks blocks(step);
  const Range items = share(part, step.input.images * blocks.count);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t first = item % blocks.count * blocks.groups, end = first + blocks.groups;
    make(item / blocks.count, first, end < step.groups ? end : step.groups);
  }
}

}  // namespace
}  // namespace calib8::engine
