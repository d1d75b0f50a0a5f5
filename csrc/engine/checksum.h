// A 64-bit checksum of plan files: as fast as memory, and sure to notice one changed word.
#pragma once

#include <cstddef>
#include <cstdint>

namespace calib8::engine {

// Eight lanes take turns with the little-endian 64-bit words of the bytes, the last word filled up with
// zeros:
//
//   lane[i] ← rotate(lane[i] xor word, 29) · odd constant
//
// Each turn is a bijection of the word and of the lane, so a change of one word, or of several words of a
// lane that happen to fall together only once in 2^64, changes the lane. The lanes and the length are then
// folded into one number in the same way. This tells accidents, not forgeries.
class Checksum {
 public:
  Checksum();
  // The next bytes; in how many pieces they come changes nothing.
  void add(const uint8_t* bytes, size_t size);
  uint64_t value() const;

 private:
  static constexpr size_t kLanes = 8, kTurn = kLanes * sizeof(uint64_t);

  void take(const uint8_t* turn);

  uint64_t lanes_[kLanes];
  uint8_t rest_[kTurn];  // what fills no turn of all lanes yet
  size_t size_ = 0;
};

}  // namespace calib8::engine
