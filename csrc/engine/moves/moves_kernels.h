// FillHalo and Copy: runs of bytes, lines of short runs, blocks transposed in registers. All of it has
// internal linkage.
#pragma once

#include <type_traits>

#include "box.h"
#include "kernels.h"
#include "transpose.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

using Widest = Group;                    // vectors that bytes are moved in
constexpr int64_t kWidest = kGroup * 4;  // their bytes

// A Load: words as they are but for an exclusive or.
struct Words {
  static constexpr int64_t size = 4;
  Group::Ints flip;

  Group::Floats group(const uint8_t* place, int64_t, int64_t, int64_t n) const {
    const auto* words = reinterpret_cast<const int32_t*>(place);
    return Group::bits(
        Group::xor_bits(n == kGroup ? Group::load(words) : Group::some_numbers(words, n), flip));
  }
};

// Loads and stores of 1, 2, 4, 8, 16 or, where vectors are so long, 32 bytes.
template <int bytes>
void move_word(const uint8_t* source, uint8_t* target, Widest::Ints flip) {
  if constexpr (bytes == kWidest) {
    Widest::store(target, Widest::xor_bits(Widest::load(source), flip));
  } else if constexpr (bytes == 16) {
    store_part(target, exclusive_or(load_part(source, 16), Widest::lane(flip, 0)), 16);
  } else {
    using Word = std::conditional_t<
        bytes == 8, uint64_t,
        std::conditional_t<bytes == 4, uint32_t, std::conditional_t<bytes == 2, uint16_t, uint8_t>>>;
    store_word<Word>(target, word_at<Word>(source) ^ Widest::first64(flip));
  }
}

void move_run(const uint8_t* source, uint8_t* target, int64_t run, Widest::Ints flip) {
  for (int64_t i = 0; i < run; i += kWidest) {
    const int64_t at = fitted(i, run, kWidest);
    move_word<kWidest>(source + at, target + at, flip);
  }
}

// Runs of at least `bytes` bytes and at most twice as many, along one axis: two words that may overlap.
template <int bytes>
void move_line(const Box& box, Place place, int axis, int64_t run, Widest::Ints flip) {
  const int64_t *table = box.tables[axis], stride = box.source_strides[axis];
  const int64_t step = box.target_strides[axis], rest = run - bytes, count = box.sizes[axis];
  const uint8_t* source = place.source;
  uint8_t* target = place.target;
  if (rest > 0) {
    for (int64_t i = 0; i < count; ++i, target += step) {
      const uint8_t* from = source + (table != nullptr ? table[i] : i * stride);
      move_word<bytes>(from, target, flip);
      move_word<bytes>(from + rest, target + rest, flip);
    }
  } else if (table != nullptr) {
    for (int64_t i = 0; i < count; ++i) move_word<bytes>(source + table[i], target + i * step, flip);
  } else {
    for (int64_t i = 0; i < count; ++i) move_word<bytes>(source + i * stride, target + i * step, flip);
  }
}

void move_any_line(const Box& box, Place place, int axis, int64_t run, Widest::Ints flip) {
  if (run > 2 * kWidest) {
    for (int64_t i = 0; i < box.sizes[axis]; ++i) {
      const Place at = box.moved(place, axis, i);
      move_run(at.source, at.target, run, flip);
    }
  } else if (run >= kWidest) {
    move_line<kWidest>(box, place, axis, run, flip);
  } else if (run >= 16) {
    move_line<16>(box, place, axis, run, flip);
  } else if (run >= 8) {
    move_line<8>(box, place, axis, run, flip);
  } else if (run >= 4) {
    move_line<4>(box, place, axis, run, flip);
  } else if (run >= 2) {
    move_line<2>(box, place, axis, run, flip);
  } else {
    move_line<1>(box, place, axis, run, flip);
  }
}

// One value along a line.
void fill_line(uint8_t* target, int64_t count, uint8_t value) {
  const Widest::Ints all = Widest::set8(value);
  if (count < kWidest) {
    const auto half = Widest::lane(all, 0);
    if (count > 16) store_part(target, half, 16);
    if (count > 0) store_part(target + (count > 16 ? count - 16 : 0), half, least(count, 16));
    return;
  }
  for (int64_t i = 0; i < count; i += kWidest) Widest::store(target + fitted(i, count, kWidest), all);
}

// Of the two innermost axes the one that makes the longer loop.
int longer_axis(const Box& box) {
  return box.sizes[kInner] < 4 && box.sizes[kInner - 1] > box.sizes[kInner] ? kInner - 1 : kInner;
}

void copy_box(const Box& box, int64_t run, Widest::Ints flip) {
  const int64_t count = box.sizes[kInner], stride = box.source_strides[kInner];
  const bool strided = box.tables[kInner] == nullptr && box.target_strides[kInner] == run;
  const int across = source_axis(box, run);
  if (run == 1 && strided && stride == 0) {
    const auto mask = static_cast<uint8_t>(Widest::first64(flip));
    walk_around(box, kInner, kInner,
                [&](Place at) { fill_line(at.target, count, static_cast<uint8_t>(*at.source ^ mask)); });
  } else if (run == 1 && strided && across >= 0) {
    walk_around(box, across, kInner, [&](Place at) {
      transpose_bytes(PlainBytes{flip}, at.source, stride, at.target, box.target_strides[across], count,
                      box.sizes[across]);
    });
  } else if (run == 4 && strided && across >= 0) {
    walk_around(box, across, kInner, [&](Place at) {
      transpose_words(Words{flip}, at.source, stride, at.target, box.target_strides[across], count,
                      box.sizes[across]);
    });
  } else {
    const int axis = longer_axis(box);
    walk_around(box, axis, axis, [&](Place at) { move_any_line(box, at, axis, run, flip); });
  }
}

// A single run, as most inputs and outputs are: nothing to walk through.
bool is_one_run(const Copy& step) {
  int64_t elements = 1, tables = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    elements *= step.sizes[axis];
    tables += step.source_tables[axis] >= 0 ? 1 : 0;
  }
  return elements == 1 && tables == 0;
}

void copy_run(const Copy& step, const Memory& memory, Part part) {
  const Range bytes = share(part, step.run, 64);
  const auto* source = memory.data<uint8_t>(step.source_buffer, step.source_offset);
  auto* target = memory.data<uint8_t>(step.target_buffer, step.target_offset);
  if (bytes.end - bytes.begin >= kWidest) {
    const Widest::Ints flip = Widest::set8(static_cast<int32_t>(step.exclusive_or));
    return move_run(source + bytes.begin, target + bytes.begin, bytes.end - bytes.begin, flip);
  }
  for (int64_t i = bytes.begin; i < bytes.end; ++i) {
    target[i] = static_cast<uint8_t>(source[i] ^ step.exclusive_or);
  }
}

void copy(const Copy& step, const Memory& memory, Part part) {
  constexpr int64_t kLongRun = 4096;
  if (is_one_run(step)) return copy_run(step, memory, part);
  Box box = whole_box(step, memory);
  int64_t run = step.run, longest = 1;
  for (int axis = 0; axis < kAxes; ++axis) {
    box.tables[axis] = memory.constant<int64_t>(step.source_tables[axis]);
    longest = longest > box.sizes[axis] ? longest : box.sizes[axis];
  }
  if (run >= kLongRun && longest < 4 * part.count) {
    const Range bytes = share(part, run, 64);
    box.first.source += bytes.begin;
    box.first.target += bytes.begin;
    run = bytes.end - bytes.begin;
  } else {
    box = share_of(box, part);
  }
  if (run > 0) copy_box(box, run, Widest::set8(static_cast<int32_t>(step.exclusive_or)));
}

// A border whose rows follow each other without a gap: what lies between two rows of the interior is one
// line.
void fill_dense_halo(const FillHalo& step, uint8_t* image, Part part) {
  const View& view = step.view;
  const int64_t width = view.columns * view.column_stride, row = view.row_stride;
  const int64_t left = step.left * view.column_stride, right = step.right * view.column_stride;
  const Range gaps = share(part, view.rows + 1);  // gap i ends where row i of the interior begins
  for (int64_t i = gaps.begin; i < gaps.end; ++i) {
    const int64_t begin = i == 0 ? -step.top * row - left : (i - 1) * row + width;
    const int64_t end = i == view.rows ? (i - 1 + step.bottom) * row + width + right : i * row;
    fill_line(image + begin, end - begin, static_cast<uint8_t>(step.value));
  }
}

// Pixels of a larger tensor, filled one by one.
void fill_sparse_halo(const FillHalo& step, uint8_t* image, Part part) {
  const View& view = step.view;
  const auto fill = [&](int64_t row, int64_t first, int64_t last) {
    for (int64_t column = first; column < last; ++column) {
      fill_line(image + view.at(0, row, column), view.channels, static_cast<uint8_t>(step.value));
    }
  };
  const Range rows = share(part, step.top + view.rows + step.bottom);
  for (int64_t row = rows.begin - step.top; row < rows.end - step.top; ++row) {
    const bool inside = row >= 0 && row < view.rows;
    fill(row, -step.left, inside ? 0 : view.columns);
    fill(row, view.columns, view.columns + step.right);
  }
}

void fill_halo(const FillHalo& step, const Memory& memory, Part part) {
  const View& view = step.view;
  const int64_t columns = step.left + view.columns + step.right;
  const bool dense = view.channels == view.column_stride && view.row_stride == columns * view.column_stride;
  for (int64_t i = 0; i < view.images; ++i) {
    uint8_t* image = memory.data<uint8_t>(view) + i * view.image_stride;
    if (dense) {
      fill_dense_halo(step, image, part);
    } else {
      fill_sparse_halo(step, image, part);
    }
  }
}

void fill_moves(KernelTable& table) {
  set_kernel<FillHalo, fill_halo>(table);
  set_kernel<Copy, copy>(table);
}

}  // namespace
}  // namespace calib8::engine
