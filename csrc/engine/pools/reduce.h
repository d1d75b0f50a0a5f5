// Reductions with vectors: along axes that stay where their elements lie side by side, else along the last
// axis that vanishes; whatever is neither is left to the reference.
#pragma once

#include "lanes.h"
#include "lengths.h"
#include "reference/reference.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int kLast = kAxes - 1;

// Elements of all axes but the last.
int64_t lines_of(const Axes& sizes) {
  int64_t count = 1;
  for (int axis = 0; axis < kLast; ++axis) count *= sizes[axis];
  return count;
}

// Elements from the first line to that with this number.
int64_t line_place(int64_t line, const Axes& sizes, const Axes& strides) {
  int64_t sum = 0;
  for (int axis = kLast - 1; axis >= 0 && line > 0; --axis) {
    sum += line % sizes[axis] * strides[axis];
    line /= sizes[axis];
  }
  return sum;
}

// Sums of kWidth / 2 channels: at most 256 of them fit 16 bits.
struct Sums {
  Words words = V::zero();
  Ints low = V::all(0), high = V::all(0);
  int64_t held = 0;

  void flush() {
    low = V::add32(low, V::first_half16(words));
    high = V::add32(high, V::other_half16(words));
    words = V::zero();
    held = 0;
  }
  void add(const uint8_t* codes, int64_t count, int64_t stride) {
    while (count > 0) {
      const int64_t run = count < 256 - held ? count : 256 - held;
      Words sum = words;
      for (int64_t i = 0; i < run; ++i) sum = V::wrap_add16(sum, V::numbers16(codes + i * stride));
      words = sum;
      codes += run * stride;
      count -= run;
      held += run;
      if (held == 256) flush();
    }
  }
};

// kLanes sums to codes.
void store_means(const Reduce& step, const Memory& memory, Ints sums, int64_t offset, uint8_t* target,
                 int64_t count) {
  const Rescale& rule = step.rescale;
  const Ints totals = V::subtract32(sums, all_int(offset));
  if (rule.kind == Rescale::kFloat) {
    const Floats value = V::multiply(V::floats(totals), V::all(*memory.constant<float>(rule.factor)));
    const Floats low = all_float(rule.low - rule.zero_point);
    const Floats high = all_float(rule.high - rule.zero_point);
    const Ints codes = V::rounded(clamped(value, low, high));
    V::store_numbers(target, V::add32(codes, all_int(rule.zero_point)), count);
    return;
  }
  int32_t each[kLanes];
  V::store(each, totals);
  for (int64_t i = 0; i < count && i < kLanes; ++i) target[i] = rescaled(rule, memory, each[i], 0);
}

// Means of some channels that lie side by side.
void reduce_means(const Reduce& step, const Memory& memory, const uint8_t* source, uint8_t* target,
                  int64_t channels) {
  Sums sums;
  const int64_t lines = lines_of(step.inner_sizes), count = step.inner_sizes[kLast];
  for (int64_t line = 0; line < lines; ++line) {
    sums.add(source + line_place(line, step.inner_sizes, step.inner_strides), count,
             step.inner_strides[kLast]);
  }
  sums.flush();
  const int64_t offset = lines * count * step.zero_point;
  store_means(step, memory, sums.low, offset, target, channels);
  if (channels > kLanes) store_means(step, memory, sums.high, offset, target + kLanes, channels - kLanes);
}

// Sums of all channels over the lines and pixels of a part, kWidth / 2 channels after each other.
void sum_pixels(const Reduce& step, const Memory& memory, Part part, int32_t* totals) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  const int64_t channels = step.outer_sizes[kLast], stride = step.inner_strides[kLast];
  const int64_t all = lines_of(step.inner_sizes), count = step.inner_sizes[kLast];
  const Range lines = all == 1 ? Range{0, 1} : share(part, all);
  const Range pixels = all == 1 ? share(part, count) : Range{0, count};
  for (int64_t first = 0; first < channels; first += kWidth / 2, totals += kWidth / 2) {
    Sums sums;
    for (int64_t line = lines.begin; line < lines.end; ++line) {
      const uint8_t* codes = source + line_place(line, step.inner_sizes, step.inner_strides) + first;
      sums.add(codes + pixels.begin * stride, pixels.end - pixels.begin, stride);
    }
    sums.flush();
    V::store(totals, sums.low);
    V::store(totals + kLanes, sums.high);
  }
}

// Means of the channels of one image. Each part sums its share of the pixels, which as a rule it wrote itself
// in the step before; the last one adds the sums up.
void reduce_pixels(const Reduce& step, const Memory& memory, Part part) {
  sum_pixels(step, memory, part, reinterpret_cast<int32_t*>(memory.scratch));
  if (!last_to_come(memory, part)) return;
  const uint8_t* first_part = memory.scratch - part.index * memory.scratch_apart;
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const int64_t channels = step.outer_sizes[kLast];
  const int64_t offset = lines_of(step.inner_sizes) * step.inner_sizes[kLast] * step.zero_point;
  for (int64_t first = 0; first < channels; first += kLanes) {
    Ints sum = V::all(0);
    for (int part_of = 0; part_of < part.count; ++part_of) {
      const auto* totals = reinterpret_cast<const int32_t*>(first_part + part_of * memory.scratch_apart);
      sum = V::add32(sum, V::load(totals + first));
    }
    store_means(step, memory, sum, offset, target + first,
                channels - first < kLanes ? channels - first : kLanes);
  }
}

// Σ (code − zero)² of kWidth / 2 channels: two pixels side by side, so that products of pairs add up. A lane
// of 32 bits gets one square of every code, 2^16 of which fit.
struct Squares {
  Words zero;
  Ints low = V::all(0), high = V::all(0);
  int64_t held = 0, totals[kWidth / 2] = {};

  explicit Squares(int64_t zero_point) : zero(V::set16(static_cast<int32_t>(zero_point))) {}

  void add(const uint8_t* codes, int64_t count, int64_t stride) {
    for (int64_t i = 0; i < count; i += 2) {
      const Words first = V::subtract16(V::numbers16(codes + i * stride), zero);
      const Words other =
          i + 1 < count ? V::subtract16(V::numbers16(codes + (i + 1) * stride), zero) : V::zero();
      const Words lower = V::low16(first, other), upper = V::high16(first, other);
      low = V::add_products16(low, lower, lower);
      high = V::add_products16(high, upper, upper);
      held += 2;
      if (held >= kMost) flush();
    }
  }
  // Interleaving leaves channels in halves of every 128 bits.
  void flush() {
    uint32_t first[kLanes], other[kLanes];
    V::store(first, low);
    V::store(other, high);
    for (int64_t i = 0; i < kLanes; ++i) {
      totals[i / 4 * 8 + i % 4] += first[i];
      totals[i / 4 * 8 + 4 + i % 4] += other[i];
    }
    low = high = V::all(0);
    held = 0;
  }

 private:
  static constexpr int64_t kMost = int64_t{1} << 16;
};

// Lengths over some channels that lie side by side.
void reduce_lengths(const Reduce& step, const Memory& memory, const uint8_t* source, uint8_t* target,
                    int64_t channels) {
  Squares squares(step.zero_point);
  const int64_t lines = lines_of(step.inner_sizes), count = step.inner_sizes[kLast];
  for (int64_t line = 0; line < lines; ++line) {
    squares.add(source + line_place(line, step.inner_sizes, step.inner_strides), count,
                step.inner_strides[kLast]);
  }
  squares.flush();
  for (int64_t i = 0; i < channels; ++i) target[i] = length_code(step, memory, squares.totals[i]);
}

// Largest or smallest codes of some channels that lie side by side.
template <bool largest>
void reduce_extremes(const Reduce& step, const uint8_t* source, uint8_t* target, int64_t channels) {
  Bytes result = V::load(source);
  const int64_t lines = lines_of(step.inner_sizes);
  for (int64_t line = 0; line < lines; ++line) {
    const uint8_t* codes = source + line_place(line, step.inner_sizes, step.inner_strides);
    for (int64_t i = 0; i < step.inner_sizes[kLast]; ++i) {
      const Bytes next = V::load(codes + i * step.inner_strides[kLast]);
      result = largest ? V::max8(result, next) : V::min8(result, next);
    }
  }
  store_codes(target, result, channels);
}

void reduce_channels(const Reduce& step, const Memory& memory, Part part) {
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const bool sums = step.kind == Reduce::kMean || step.kind == Reduce::kLength;
  const int64_t channels = step.outer_sizes[kLast], width = sums ? kWidth / 2 : kWidth;
  const int64_t groups = (channels + width - 1) / width;
  const Range items = share(part, lines_of(step.outer_sizes) * groups);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t first = item % groups * width, line = item / groups;
    const uint8_t* from = source + line_place(line, step.outer_sizes, step.outer_strides) + first;
    uint8_t* to = target + line_place(line, step.outer_sizes, step.target_strides) + first;
    const int64_t count = channels - first < width ? channels - first : width;
    if (step.kind == Reduce::kMean) {
      reduce_means(step, memory, from, to, count);
    } else if (step.kind == Reduce::kLength) {
      reduce_lengths(step, memory, from, to, count);
    } else if (step.kind == Reduce::kLargest) {
      reduce_extremes<true>(step, from, to, count);
    } else {
      reduce_extremes<false>(step, from, to, count);
    }
  }
}

// One output, whose codes lie side by side at least in the last axis.
uint8_t reduce_runs(const Reduce& step, const Memory& memory, const uint8_t* source) {
  const int64_t lines = lines_of(step.inner_sizes), count = step.inner_sizes[kLast];
  uint32_t total = 0;
  int64_t squares = 0;
  uint8_t largest = 0, smallest = 255;
  for (int64_t line = 0; line < lines; ++line) {
    const uint8_t* codes = source + line_place(line, step.inner_sizes, step.inner_strides);
    if (step.kind == Reduce::kMean) {
      for (int64_t i = 0; i < count; ++i) total += codes[i];
    } else if (step.kind == Reduce::kLength) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t centred = codes[i] - step.zero_point;
        squares += centred * centred;
      }
    } else if (step.kind == Reduce::kLargest) {
      for (int64_t i = 0; i < count; ++i) largest = codes[i] > largest ? codes[i] : largest;
    } else {
      for (int64_t i = 0; i < count; ++i) smallest = codes[i] < smallest ? codes[i] : smallest;
    }
  }
  if (step.kind == Reduce::kLength) return length_code(step, memory, squares);
  if (step.kind != Reduce::kMean) return step.kind == Reduce::kLargest ? largest : smallest;
  const int64_t sum = int64_t{total} - lines * count * step.zero_point;
  return rescaled(step.rescale, memory, static_cast<int32_t>(sum), 0);
}

void reduce(const Reduce& step, const Memory& memory, Part part) {
  if (part.count > 1 && step.outer_sizes[kLast] >= 4 && sums_pixels(step)) {
    return reduce_pixels(step, memory, part);
  }
  if (step.outer_sizes[kLast] >= 4 && step.outer_strides[kLast] == 1 && step.target_strides[kLast] == 1) {
    return reduce_channels(step, memory, part);
  }
  if (step.inner_sizes[kLast] > 1 && step.inner_strides[kLast] != 1)
    return reference_reduce(step, memory, part);
  const uint8_t* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  uint8_t* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  const int64_t columns = step.outer_sizes[kLast];
  const Range places = share(part, lines_of(step.outer_sizes) * columns);
  for (int64_t place = places.begin; place < places.end; ++place) {
    const int64_t line = place / columns, column = place % columns;
    const int64_t from =
        line_place(line, step.outer_sizes, step.outer_strides) + column * step.outer_strides[kLast];
    const int64_t to =
        line_place(line, step.outer_sizes, step.target_strides) + column * step.target_strides[kLast];
    target[to] = reduce_runs(step, memory, source + from);
  }
}

}  // namespace
}  // namespace calib8::engine
