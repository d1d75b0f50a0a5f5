// Places and sizes against the buffers of a plan, in numbers that cannot overflow.
#include "limits.h"

#include <algorithm>
#include <stdexcept>

#include "../platform.h"
#include "engine.h"

namespace calib8::engine {

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(std::string("the plan is broken: ") + what);
}

Extent& Extent::along(int64_t size, int64_t stride) {
  constexpr int64_t kMost = int64_t{1} << 48;
  require(size >= 1 && size <= kMost && stride > -kMost && stride < kMost, "an absurd size or stride");
  const __int128 reach = static_cast<__int128>(size - 1) * stride;
  (reach < 0 ? low : high) += reach;
  count *= size;
  require(count <= kMost, "an absurd number of elements");
  return *this;
}

Extent& Extent::moved(int64_t to_low, int64_t to_high) {
  low += to_low;
  high += to_high;
  return *this;
}

Extent& Extent::runs(int64_t bytes) { return along(bytes, 1); }

void check_memory(int64_t bytes) {
  const int64_t most = platform::machine_bytes();
  if (bytes <= most) return;
  throw std::invalid_argument("the plan needs " + std::to_string(bytes) +
                              " bytes of memory, this machine has " + std::to_string(most));
}

Extent extent_of(const View& view) {
  Extent extent;
  extent.along(view.images, view.image_stride).along(view.rows, view.row_stride);
  return extent.along(view.columns, view.column_stride).along(view.channels, 1);
}

Limits::Limits(const Description& description)
    : constants_(description.constants),
      bytes_{description.arena_bytes, description.constant_bytes - kSlack},  // counted in their size
      written_(description.port_bytes.size()) {
  require(reinterpret_cast<uintptr_t>(constants_) % 64 == 0, "constants are not aligned to 64 bytes");
  bytes_.insert(bytes_.end(), description.port_bytes.begin(), description.port_bytes.end());
  for (const int64_t bytes : bytes_) require(bytes >= 0, "a buffer of negative size");
  check_memory(description.arena_bytes);
  __int128 of_the_caller = 0;
  for (const int64_t bytes : description.port_bytes) of_the_caller += bytes;
  check_memory(static_cast<int64_t>(std::min<__int128>(of_the_caller, INT64_MAX)));
}

int64_t Limits::bytes_of(int64_t buffer) const {
  require(buffer >= 0 && buffer < static_cast<int64_t>(bytes_.size()), "a buffer that does not exist");
  return bytes_[static_cast<size_t>(buffer)];
}

void Limits::check(int64_t buffer, int64_t offset, const Extent& extent, int64_t item) const {
  const int64_t bytes = bytes_of(buffer);
  require(offset % item == 0, "elements that are not aligned");
  const __int128 first = offset + extent.low * item, last = offset + (extent.high + 1) * item;
  require(first >= 0 && last <= bytes, "a step leaves its buffer");
}

void Limits::reads(int64_t buffer, int64_t offset, const Extent& extent, int64_t item) const {
  check(buffer, offset, extent, item);
  if (buffer < kFirstPort) return;
  const __int128 last = offset + (extent.high + 1) * item;
  require(last + kSlack <= bytes_of(buffer), "a step may read beyond an array of the caller");
}

void Limits::reads_exactly(int64_t buffer, int64_t offset, const Extent& extent, int64_t item) const {
  check(buffer, offset, extent, item);
}

void Limits::writes(int64_t buffer, int64_t offset, const Extent& extent, int64_t item) {
  check(buffer, offset, extent, item);
  require(buffer != kConstants, "a step writes among the constants");
  require(extent.count <= extent.high - extent.low + 1, "a step writes an element twice");
  if (buffer < kFirstPort) return;
  first_written_ = std::min(first_written_, buffer - kFirstPort);
  written_[static_cast<size_t>(buffer - kFirstPort)] += extent.count * item;
}

void Limits::reads(const View& view, int64_t item) const {
  reads(view.buffer, view.offset, extent_of(view), item);
}

void Limits::writes(const View& view, int64_t item) {
  writes(view.buffer, view.offset, extent_of(view), item);
}

const void* Limits::array(int64_t offset, int64_t count, int64_t item) const {
  check(kConstants, offset, Extent().along(count, 1), item);
  return constants_ + offset;
}

}  // namespace calib8::engine
