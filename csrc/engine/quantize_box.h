// Which lines and blocks of floats become which of codes, whatever the registers are: a Load turns floats
// into stored codes. For files compiled with AVX2 or more; all of it has internal linkage.
#pragma once

#include "box.h"
#include "transpose_avx2.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <class Load>
inline void quantize_line(const Load& load, const uint8_t* source, uint8_t* target, int64_t count) {
  if (count < 16) {
    store_part(target, load.part(source, count), count);
    return;
  }
  for (int64_t first = 0; first < count; first += 16) {
    const int64_t i = fitted(first, count, 16);
    store_part(target + i, load.full(source + i * Load::size), 16);
  }
}

template <class Load>
inline void quantize_box(const Load& load, const Box& box) {
  const int64_t count = box.sizes[kInner], stride = box.source_strides[kInner];
  const int across = source_axis(box, Load::size);
  if (stride == Load::size && box.target_strides[kInner] == 1) {
    walk_around(box, kInner, kInner, [&](Place at) { quantize_line(load, at.source, at.target, count); });
  } else if (across >= 0 && box.target_strides[kInner] == 1) {
    walk_around(box, across, kInner, [&](Place at) {
      transpose_bytes(load, at.source, stride, at.target, box.target_strides[across], count,
                      box.sizes[across]);
    });
  } else {
    walk(box, box.first, [&](Place at) { store_part(at.target, load.part(at.source, 1), 1); });
  }
}

}  // namespace
}  // namespace calib8::engine
