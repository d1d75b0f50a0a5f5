// Words in memory, and lines that are shorter than a register.
//
// Everything here has internal linkage: files with other instruction sets include it too.
#pragma once

#include <cstdint>
#include <cstring>

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

template <class T>
inline T word_at(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

template <class T>
inline void store_word(uint8_t* place, uint64_t value) {
  const T narrow = static_cast<T>(value);
  std::memcpy(place, &narrow, sizeof narrow);
}

// 16 bytes as two numbers, the first of them lowest.
struct Sixteen {
  uint64_t low, high;
};

// Bytes 0 … n−1, 1 ≤ n ≤ 15; the others are 0.
[[maybe_unused]] inline Sixteen sixteen_at(const uint8_t* place, int64_t n) {
  if (n >= 8) {
    const uint64_t high = n > 8 ? word_at<uint64_t>(place + n - 8) >> (8 * (16 - n)) : 0;
    return {word_at<uint64_t>(place), high};
  }
  if (n >= 4) {
    return {word_at<uint32_t>(place) | uint64_t{word_at<uint32_t>(place + n - 4)} << (8 * (n - 4)), 0};
  }
  if (n >= 2) {
    return {word_at<uint16_t>(place) | uint64_t{word_at<uint16_t>(place + n - 2)} << (8 * (n - 2)), 0};
  }
  return {*place, 0};
}

// Stores bytes 0 … n−1, 1 ≤ n ≤ 15.
[[maybe_unused]] inline void store_sixteen(uint8_t* place, Sixteen bytes, int64_t n) {
  const uint64_t low = bytes.low;
  if (n >= 8) {
    store_word<uint64_t>(place, low);
    if (n > 8) {
      store_word<uint64_t>(place + n - 8, low >> (8 * (n - 8)) | bytes.high << (8 * (16 - n)));
    }
  } else if (n >= 4) {
    store_word<uint32_t>(place, low);
    store_word<uint32_t>(place + n - 4, low >> (8 * (n - 4)));
  } else if (n >= 2) {
    store_word<uint16_t>(place, low);
    store_word<uint16_t>(place + n - 2, low >> (8 * (n - 2)));
  } else {
    *place = static_cast<uint8_t>(low);
  }
}

// Where the block that begins at `first` begins so that it does not reach beyond the end.
[[maybe_unused]] inline int64_t fitted(int64_t first, int64_t total, int64_t block) {
  return total >= block && first + block > total ? total - block : first;
}
[[maybe_unused]] inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace
}  // namespace calib8::engine
