// The checksum of plan files: eight independent lanes, so that multiplications overlap.
#include "checksum.h"

#include <cstring>

namespace calib8::engine {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kWord = sizeof(uint64_t);
constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio, odd

uint64_t turn(uint64_t lane, uint64_t word) {
  const uint64_t mixed = lane ^ word;
  return (mixed << 29 | mixed >> 35) * kFactor;
}

uint64_t little_endian(const uint8_t* bytes, size_t size) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, size);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

}  // namespace

uint64_t checksum(const uint8_t* bytes, size_t size) {
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = kFactor * (i + 1);
  size_t place = 0;
  for (; place + kLanes * kWord <= size; place += kLanes * kWord) {
    for (size_t i = 0; i < kLanes; ++i) {
      lanes[i] = turn(lanes[i], little_endian(bytes + place + i * kWord, kWord));
    }
  }
  for (size_t i = 0; place < size; ++i) {
    const size_t left = size - place < kWord ? size - place : kWord;
    lanes[i] = turn(lanes[i], little_endian(bytes + place, left));
    place += left;
  }
  uint64_t result = size;
  for (const uint64_t lane : lanes) result = turn(result ^ result >> 32, lane);
  return result ^ result >> 29;
}

}  // namespace calib8::engine
