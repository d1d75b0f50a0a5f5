// Where tensors lie: images of channels in one of the buffers of a run.
#pragma once

#include <atomic>
#include <cstdint>

namespace calib8::engine {

// Buffers of a run, by number.
enum Buffer : int64_t { kArena = 0, kConstants = 1, kFirstPort = 2 };

// Readable bytes behind the arena, the constants and the scratch memory. Ports, the caller's arrays, have
// nothing behind them.
constexpr int64_t kSlack = 64;

// A tensor [images, rows, columns, channels]; channels lie side by side. `offset` is in bytes from the start
// of the buffer, strides are in elements. Tensors of other ranks are given as [1, 1, everything else, last
// axis].
struct View {
  static constexpr const char* kName = "view";
  int64_t buffer, offset;
  int64_t images, rows, columns, channels;
  int64_t image_stride, row_stride, column_stride;

  int64_t pixels() const { return images * rows * columns; }
  // Pixels follow each other without a gap, all images included.
  bool dense_pixels() const {
    return (rows == 1 || row_stride == columns * column_stride) &&
           (images == 1 || image_stride == rows * columns * column_stride);
  }
  template <class F>
  void fields(F&& f) {
    f("buffer", buffer), f("offset", offset), f("images", images), f("rows", rows), f("columns", columns);
    f("channels", channels), f("image_stride", image_stride), f("row_stride", row_stride);
    f("column_stride", column_stride);
  }
  int64_t at(int64_t image, int64_t row, int64_t column) const {
    return image * image_stride + row * row_stride + column * column_stride;
  }
};

struct SplitRows;  // split_rows.h

// The buffers of one run as one of its threads sees them.
struct Memory {
  uint8_t* const* buffers;
  uint8_t* scratch;           // of this thread alone, scratch_bytes(step) of it (scratch.h), 64-byte aligned
  const SplitRows* split;     // of a Conv with fixed-point factors, else null
  bool pair_sums_fit;         // of a Conv or WideConv, where its set asks for it (pair_sums.h)
  int64_t scratch_apart;      // bytes from the scratch memory of one part of the step to that of the next
  std::atomic<int>* through;  // how many parts of the step have come to `last_to_come`

  template <class T>
  T* data(const View& view) const {
    return reinterpret_cast<T*>(buffers[view.buffer] + view.offset);
  }
  template <class T>
  T* data(int64_t buffer, int64_t offset) const {
    return reinterpret_cast<T*>(buffers[buffer] + offset);
  }
  // An array among the constants; null for a negative offset.
  template <class T>
  const T* constant(int64_t offset) const {
    return offset < 0 ? nullptr : reinterpret_cast<const T*>(buffers[kConstants] + offset);
  }
};

// One of the equal shares in which threads take a step.
struct Part {
  int index, count;
};

struct Range {
  int64_t begin, end;
};

// For steps whose parts prepare something: true for the part that comes last. It sees what the others have
// left in their scratch memory, and finishes the step.
inline bool last_to_come(const Memory& memory, Part part) {
  return part.count == 1 || memory.through->fetch_add(1, std::memory_order_acq_rel) == part.count - 1;
}

// The share of 0 … total−1 that falls to a part, in whole grains.
inline Range share(Part part, int64_t total, int64_t grain = 1) {
  if (part.count == 1) return {0, total};  // without divisions, which tiny layers would wait for
  const int64_t grains = (total + grain - 1) / grain;
  const int64_t first = grains * part.index / part.count * grain;
  const int64_t last = grains * (part.index + 1) / part.count * grain;
  return {first < total ? first : total, last < total ? last : total};
}

}  // namespace calib8::engine
