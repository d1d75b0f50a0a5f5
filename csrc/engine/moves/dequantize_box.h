// Dequantize: as many codes or sums become float32 at a time as a vector holds, and which lines and blocks of
// them become which of floats. All of it has internal linkage.
#pragma once

#include "box.h"
#include "lanes.h"
#include "steps.h"
#include "transpose.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Stored codes or sums → float32; the scales lie along the columns, along the rows, or there is one.
template <class T>
struct Dequantizer {
  static constexpr int64_t size = sizeof(T);
  int32_t zero_point;
  const uint8_t* scales;
  int64_t row_stride, column_stride;

  Group::Ints codes(const uint8_t* place, int64_t n) const {
    if constexpr (size == 4) {
      const auto* sums = reinterpret_cast<const int32_t*>(place);
      return n == kGroup ? Group::load(sums) : Group::some_numbers(sums, n);
    } else {
      return n == kGroup ? Group::numbers(place) : Group::numbers_of(load_part(place, n));
    }
  }
  Group::Floats group(const uint8_t* place, int64_t row, int64_t column, int64_t n) const {
    const auto value = Group::floats(Group::subtract32(codes(place, n), Group::all(zero_point)));
    const uint8_t* scale = scales + row * row_stride + column * column_stride;
    if (column_stride == 0) return Group::multiply(value, Group::all(word_at<float>(scale)));
    const auto* each = reinterpret_cast<const float*>(scale);
    return Group::multiply(value, n == kGroup ? Group::numbers(each) : Group::some_numbers(each, n));
  }
};

template <class T>
void dequantize_line(const Dequantizer<T> load, const uint8_t* source, uint8_t* target, int64_t count) {
  int64_t i = 0;
  if (load.column_stride == 0) {
    const Ints zero = V::all(load.zero_point);
    const Floats scale = V::all(word_at<float>(load.scales));
    for (; i + kLanes <= count; i += kLanes) {
      const Ints steps = V::subtract32(V::numbers(reinterpret_cast<const T*>(source + i * load.size)), zero);
      V::store(target + i * 4, V::as_ints(V::multiply(V::floats(steps), scale)));
    }
  }
  for (; i < count; i += kGroup) {
    const int64_t n = least(count - i, kGroup);
    store_words(target + i * 4, load.group(source + i * load.size, 0, i, n), n);
  }
}

// Columns of sums: words transposed in registers.
void dequantize_block(const Dequantizer<int32_t>& load, Place at, int64_t source_stride,
                      int64_t target_stride, int64_t rows, int64_t columns) {
  transpose_words(load, at.source, source_stride, at.target, target_stride, rows, columns);
}

// Columns of codes, which have one scale: bytes transposed, tile by tile, then whole lines converted.
void dequantize_block(const Dequantizer<uint8_t>& load, Place at, int64_t source_stride,
                      int64_t target_stride, int64_t rows, int64_t columns) {
  constexpr int64_t kRows = 256, kColumns = 32;
  alignas(32) uint8_t tile[kColumns * kRows];
  for (int64_t r = 0; r < rows; r += kRows) {
    for (int64_t c = 0; c < columns; c += kColumns) {
      const int64_t height = least(rows - r, kRows), width = least(columns - c, kColumns);
      transpose_bytes(PlainBytes{Group::zero()}, at.source + r * source_stride + c, source_stride, tile,
                      kRows, height, width);
      for (int64_t i = 0; i < width; ++i) {
        dequantize_line(load, tile + i * kRows, at.target + (c + i) * target_stride + r * 4, height);
      }
    }
  }
}

template <class T>
void dequantize_box(const Box& box, int64_t zero_point) {
  const auto zero = static_cast<int32_t>(zero_point);
  const int64_t count = box.sizes[kInner], stride = box.source_strides[kInner];
  const int64_t inner_scales = box.scale_strides[kInner];
  const int across = source_axis(box, sizeof(T));
  if (stride == sizeof(T) && box.target_strides[kInner] == 4) {
    walk_around(box, kInner, kInner, [&](Place at) {
      dequantize_line(Dequantizer<T>{zero, at.scale, 0, inner_scales}, at.source, at.target, count);
    });
  } else if (across >= 0 && box.target_strides[kInner] == 4) {
    walk_around(box, across, kInner, [&](Place at) {
      dequantize_block(Dequantizer<T>{zero, at.scale, inner_scales, box.scale_strides[across]}, at, stride,
                       box.target_strides[across], count, box.sizes[across]);
    });
  } else {
    walk(box, box.first,
         [&](Place at) { dequantize_line(Dequantizer<T>{zero, at.scale, 0, 0}, at.source, at.target, 1); });
  }
}

void dequantize(const Dequantize& step, const Memory& memory, Part part) {
  Box box = whole_box(step, memory);
  box.first.scale = memory.constant<uint8_t>(step.scales);
  for (int axis = 0; axis < kAxes; ++axis) box.scale_strides[axis] = step.scale_strides[axis];
  box = share_of(box, part);
  if (step.source_size == 1) {
    dequantize_box<uint8_t>(box, step.zero_point);
  } else {
    dequantize_box<int32_t>(box, step.zero_point);
  }
}

}  // namespace
}  // namespace calib8::engine
