// What a plan may touch: steps compared with the sizes of the buffers before anything runs.
//
// A plan may come from anywhere. After these checks no kernel reads or writes beyond its buffers, whatever
// the numbers in the plan are; the codes that such a plan gives are another matter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view.h"

namespace calib8::engine {

struct Description;

// A box of elements: the least and the largest place that is touched, relative to the first element.
class Extent {
 public:
  // `size` indices, `stride` apart. Throws std::invalid_argument for sizes below 1 and for absurd ones.
  Extent& along(int64_t size, int64_t stride);
  Extent& moved(int64_t low, int64_t high);
  // Bytes become runs of so many: a run of codes, or an element where strides are in bytes.
  Extent& runs(int64_t bytes);

  __int128 low = 0, high = 0;
  __int128 count = 1;
};

// Throws std::invalid_argument wherever something does not fit.
class Limits {
 public:
  explicit Limits(const Description& description);

  // For kernels that load whole vectors, up to kSlack bytes beyond the last element: a port must have them.
  void reads(int64_t buffer, int64_t offset, const Extent& extent, int64_t item = 1) const;
  void reads(const View& view, int64_t item = 1) const;
  // For kernels that load no byte beyond it.
  void reads_exactly(int64_t buffer, int64_t offset, const Extent& extent, int64_t item = 1) const;
  void writes(int64_t buffer, int64_t offset, const Extent& extent, int64_t item = 1);
  void writes(const View& view, int64_t item = 1);

  // An array among the constants.
  template <class T>
  const T* array(int64_t offset, int64_t count) const {
    return static_cast<const T*>(array(offset, count, sizeof(T)));
  }

  // The lowest number of a port that is written.
  int64_t first_written() const { return first_written_; }
  // Whether as much was written into a port as it has bytes.
  bool filled(size_t port) const { return written_[port] >= bytes_[kFirstPort + port]; }

 private:
  int64_t bytes_of(int64_t buffer) const;
  void check(int64_t buffer, int64_t offset, const Extent& extent, int64_t item) const;
  const void* array(int64_t offset, int64_t count, int64_t item) const;

  const uint8_t* constants_;
  std::vector<int64_t> bytes_;     // of the arena, the constants and the ports
  std::vector<__int128> written_;  // into the ports
  int64_t first_written_ = INT64_MAX;
};

Extent extent_of(const View& view);

// Throws std::invalid_argument for more bytes than the memory of this machine.
void check_memory(int64_t bytes);

void require(bool condition, const char* what);

}  // namespace calib8::engine
