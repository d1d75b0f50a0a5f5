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
uint64_t checksum(const uint8_t* bytes, size_t size);

}  // namespace calib8::engine
