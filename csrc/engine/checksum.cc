// The checksum of plan files: eight independent lanes, so that multiplications overlap.
#include "checksum.h"

#include <cstring>

namespace calib8::engine {
namespace {

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

Checksum::Checksum() {
  for (size_t i = 0; i < kLanes; ++i) lanes_[i] = kFactor * (i + 1);
}

void Checksum::take(const uint8_t* bytes) {
  for (size_t i = 0; i < kLanes; ++i) lanes_[i] = turn(lanes_[i], little_endian(bytes + i * kWord, kWord));
}

void Checksum::add(const uint8_t* bytes, size_t size) {
  const size_t kept = size_ % kTurn;
  size_ += size;
  if (kept != 0) {
    const size_t wanted = kTurn - kept, taken = size < wanted ? size : wanted;
    std::memcpy(rest_ + kept, bytes, taken);
    if (taken < wanted) return;
    take(rest_);
    bytes += taken, size -= taken;
  }
  for (; size >= kTurn; bytes += kTurn, size -= kTurn) take(bytes);
  if (size > 0) std::memcpy(rest_, bytes, size);
}

uint64_t Checksum::value() const {
  uint64_t result = size_;
  for (size_t i = 0, place = 0; i < kLanes; ++i, place += kWord) {
    const size_t rest = size_ % kTurn, left = place < rest ? rest - place : 0;
    const uint64_t lane =
        left == 0 ? lanes_[i] : turn(lanes_[i], little_endian(rest_ + place, left < kWord ? left : kWord));
    result = turn(result ^ result >> 32, lane);
  }
  return result ^ result >> 29;
}

}  // namespace calib8::engine
