// GroupNorm with vectors: sums of every channel over the pixels, then every code by the numbers of its
// channel. Scratch memory: Σq and Σq² of the channels, then three numbers for each (`GroupScratch`).
#pragma once

#include "groups.h"
#include "lanes.h"
#include "scratch.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kGroupRun = int64_t{1} << 16;  // pixels whose squares, each below 2^16, fit 32 bits

// Σq and Σq² of `vectors` times kLanes channels, modulo 2^32.
template <int vectors>
struct ChannelSums {
  Ints sums[vectors], squares[vectors];

  void clear() {
    for (int i = 0; i < vectors; ++i) sums[i] = squares[i] = V::all(0);
  }
  void add(const uint8_t* codes, int64_t count, int64_t stride) {
    Ints sum[vectors], square[vectors];
    for (int i = 0; i < vectors; ++i) sum[i] = sums[i], square[i] = squares[i];
    for (int64_t pixel = 0; pixel < count; ++pixel, codes += stride) {
      for (int i = 0; i < vectors; ++i) {
        const Ints next = V::numbers(codes + i * kLanes);
        sum[i] = V::add32(sum[i], next);
        square[i] = V::add_products16(square[i], next, next);
      }
    }
    for (int i = 0; i < vectors; ++i) sums[i] = sum[i], squares[i] = square[i];
  }
  void flush(int64_t* sum, int64_t* square) {
    for (int i = 0; i < vectors; ++i) {
      uint32_t numbers[2][kLanes];
      V::store(numbers[0], sums[i]);
      V::store(numbers[1], squares[i]);
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        sum[i * kLanes + lane] += numbers[0][lane];
        square[i * kLanes + lane] += numbers[1][lane];
      }
    }
    clear();
  }
};

// Adds up some channels, from `first` on, over all pixels of an image.
template <int vectors>
void sum_channels(const GroupNorm& step, const uint8_t* codes, const GroupScratch& scratch, int64_t first) {
  const View& in = step.input;
  int64_t *sum = scratch.sums + first, *square = scratch.squares + first;
  for (int64_t i = 0; i < vectors * kLanes; ++i) sum[i] = square[i] = 0;
  ChannelSums<vectors> all;
  all.clear();
  int64_t held = 0;
  for (int64_t row = 0; row < in.rows; ++row) {
    for (int64_t column = 0; column < in.columns;) {
      const int64_t room = kGroupRun - held, left = in.columns - column;
      const int64_t count = left < room ? left : room;
      all.add(codes + in.at(0, row, column) + first, count, in.column_stride);
      column += count;
      held += count;
      if (held == kGroupRun) all.flush(sum, square), held = 0;
    }
  }
  all.flush(sum, square);
}

// The numbers of all channels of a group, from its sums.
void prepare_group(const GroupNorm& step, const Memory& memory, const GroupScratch& scratch, int64_t number) {
  const int64_t size = step.input.channels / step.groups, first = number * size;
  int64_t sum = 0, squares = 0;
  for (int64_t channel = first; channel < first + size; ++channel) {
    sum += scratch.sums[channel];
    squares += scratch.squares[channel];
  }
  const Group group = group_of(step, sum, squares);
  if (step.kind == GroupNorm::kFloat) {
    for (int64_t channel = first; channel < first + size; ++channel) {
      const FloatChannel made = float_channel(step, memory, group, channel);
      scratch.numbers<float>(0)[channel] = made.factor;
      scratch.numbers<float>(1)[channel] = made.offset;
      scratch.numbers<float>(2)[channel] = static_cast<float>(group.centre);
    }
    return;
  }
  for (int64_t channel = first; channel < first + size; ++channel) {
    const FixedChannel made = fixed_channel(step, memory, group, channel);
    scratch.numbers<int32_t>(0)[channel] = made.factor;
    scratch.numbers<int32_t>(1)[channel] = made.offset;
    scratch.numbers<int32_t>(2)[channel] = made.shift;
  }
}

struct FloatGroupCodes {
  const float *factor, *offset, *centre;

  explicit FloatGroupCodes(const GroupScratch& scratch)
      : factor(scratch.numbers<float>(0)),
        offset(scratch.numbers<float>(1)),
        centre(scratch.numbers<float>(2)) {}
  Ints steps(Ints codes, int64_t channel, Ints low, Ints high) const {
    const Floats value = V::subtract(V::floats(codes), V::numbers(centre + channel));
    const Floats scaled = V::multiply(value, V::numbers(factor + channel));
    const Floats moved = V::add(scaled, V::numbers(offset + channel));
    return V::rounded(clamped(moved, V::floats(low), V::floats(high)));
  }
};

struct FixedGroupCodes {
  const int32_t *factor, *offset, *shift;

  explicit FixedGroupCodes(const GroupScratch& scratch)
      : factor(scratch.numbers<int32_t>(0)),
        offset(scratch.numbers<int32_t>(1)),
        shift(scratch.numbers<int32_t>(2)) {}
  Ints steps(Ints codes, int64_t channel, Ints low, Ints high) const {
    const Ints scaled = V::multiply32(codes, V::numbers(factor + channel));
    const Ints moved = V::right(V::add32(scaled, V::numbers(offset + channel)), V::numbers(shift + channel));
    return V::min32(V::max32(moved, low), high);
  }
};

// All codes of the channels first … end − 1 of an image.
template <class Codes>
void write_channels(const GroupNorm& step, const uint8_t* input, uint8_t* output, const Codes& made,
                    int64_t first, int64_t end) {
  const View &in = step.input, &out = step.output;
  const Ints low = all_int(step.low - step.zero_point), high = all_int(step.high - step.zero_point);
  const Ints zero = all_int(step.zero_point);
  for (int64_t row = 0; row < in.rows; ++row) {
    for (int64_t column = 0; column < in.columns; ++column) {
      const uint8_t* codes = input + in.at(0, row, column);
      uint8_t* target = output + out.at(0, row, column);
      for (int64_t channel = first; channel < end; channel += kLanes) {
        const Ints steps = made.steps(V::numbers(codes + channel), channel, low, high);
        V::store_numbers(target + channel, V::add32(steps, zero), end - channel);
      }
    }
  }
}

void group_norm(const GroupNorm& step, const Memory& memory, Part part) {
  const GroupScratch scratch(step, memory.scratch);
  const int64_t size = step.input.channels / step.groups;
  each_group_block(step, part, [&](int64_t image, int64_t first_group, int64_t end_group) {
    const uint8_t* input = memory.data<uint8_t>(step.input) + step.input.at(image, 0, 0);
    uint8_t* output = memory.data<uint8_t>(step.output) + step.output.at(image, 0, 0);
    const int64_t first = first_group * size, end = end_group * size;
    for (int64_t channel = first; channel < end;) {
      const bool many = end - channel > kLanes;
      (many ? sum_channels<4> : sum_channels<1>)(step, input, scratch, channel);
      channel += many ? 4 * kLanes : kLanes;
    }
    for (int64_t number = first_group; number < end_group; ++number) {
      prepare_group(step, memory, scratch, number);
    }
    if (step.kind == GroupNorm::kFloat) {
      write_channels(step, input, output, FloatGroupCodes(scratch), first, end);
    } else {
      write_channels(step, input, output, FixedGroupCodes(scratch), first, end);
    }
  });
}

}  // namespace
}  // namespace calib8::engine
