// Quantize: 16 floats become codes at a time, and which lines and blocks of floats become which of codes. All
// of it has internal linkage.
#pragma once

#include "box.h"
#include "lanes.h"
#include "steps.h"
#include "transpose.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// float32 → stored codes, a Load of transpose.h. The quotient is a true division: a product with
// 1 / scale rounds differently.
template <bool away>
struct Quantizer {
  static constexpr int64_t size = 4;
  Floats scale, least_code, most_code;  // codes minus their zero point
  Ints zero_point;                      // of stored codes

  explicit Quantizer(const Quantize& step)
      : scale(all_float(step.scale)),
        least_code(all_float(step.low - step.zero_point)),
        most_code(all_float(step.high - step.zero_point)),
        zero_point(all_int(step.zero_point + step.shift)) {}

  Ints operator()(Floats values) const {
    const Floats code = clamped(V::divide(values, scale), least_code, most_code);
    return V::add32(away ? V::rounded_away(code) : V::rounded(code), zero_point);
  }
  Lanes<16>::Ints full(const uint8_t* place) const {
    return V::codes_of_16(reinterpret_cast<const float*>(place), *this);
  }
#if defined(__x86_64__)
  __m256i wide(const uint8_t* place) const {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(full(place)), full(place + 64), 1);
  }
#endif
  Lanes<16>::Ints part(const uint8_t* place, int64_t n) const {
    return V::codes_of_some(reinterpret_cast<const float*>(place), n, *this);
  }
};

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

void quantize(const Quantize& step, const Memory& memory, Part part) {
  const Box box = share_of(whole_box(step, memory), part);
  if (step.away != 0) {
    quantize_box(Quantizer<true>(step), box);
  } else {
    quantize_box(Quantizer<false>(step), box);
  }
}

}  // namespace
}  // namespace calib8::engine
