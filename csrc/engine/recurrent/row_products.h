// Products of rows of codes and the gates of a group of units, as many as a vector has lanes.
//
//                      weights of a quad of codes, loaded once for all rows
//                      gate 0         gate 1         gate 2         gate 3
//   row 0  4 codes ──► acc[0][0]      acc[0][1]      acc[0][2]      acc[0][3]
//   row 1  4 codes ──► acc[1][0]      …
//
// With dot products codes are taken as they are stored, plus 128, and sums begin with −128·Σw. Without,
// 16-bit products are those of |code| and of the weight with the sign of the code: 2·128·127 fits.
#pragma once

#include <cstring>

#include "lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kStoredCodes = true;
#else
constexpr bool kStoredCodes = false;
#endif
constexpr int kRowsAtATime = kWidth == 64 ? 6 : 2;  // of x, whose gates of one group fill the registers
static_assert(kRowsAtATime <= kCellRows && Recurrent::kBlock == IntegerLstm::kBlock);
constexpr int64_t kGroups = Recurrent::kBlock / kLanes;  // of a block

// Four codes in every lane, ready to be multiplied.
struct Quad {
  Ints codes, sizes;

  explicit Quad(const uint8_t* from) {
    int32_t four = 0;
    std::memcpy(&four, from, sizeof four);
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    codes = sizes = V::all(four);
#else
    codes = V::all(four ^ static_cast<int32_t>(0x80808080U));
    sizes = _mm256_abs_epi8(codes);
#endif
  }
  Ints added(Ints acc, Ints weights) const {
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    return V::dot(acc, codes, weights);
#else
    const Ints pairs = _mm256_maddubs_epi16(sizes, _mm256_sign_epi8(weights, codes));
    return V::add32(acc, V::multiply_add16(pairs, V::set16(1)));
#endif
  }
};

// Sums of `rows` rows of codes and `gates` neighbouring gates. `weights` are those of the group, `stride`
// bytes from a quad to the next; `start` is what the sums begin with.
template <int rows, int gates>
void add_products(const uint8_t* const* codes, const int8_t* weights, int64_t stride, int64_t quads,
                  const int32_t* start, Ints (*acc)[gates]) {
  constexpr int kChains = rows * gates >= 6 ? 1 : rows * gates >= 3 ? 2 : 4;  // that hide the latency
  Ints sums[kChains][rows][gates];
  for (int chain = 0; chain < kChains; ++chain) {
    for (int row = 0; row < rows; ++row) {
      for (int gate = 0; gate < gates; ++gate) {
        const bool first = kStoredCodes && chain == 0;
        sums[chain][row][gate] = first ? V::numbers(start + gate * Recurrent::kBlock) : V::zero();
      }
    }
  }
  int64_t quad = 0;
  for (; quad + kChains <= quads; quad += kChains) {
    for (int chain = 0; chain < kChains; ++chain) {
      Ints weight[gates];
      for (int gate = 0; gate < gates; ++gate) weight[gate] = V::load(weights + 64 * gate);
      for (int row = 0; row < rows; ++row) {
        const Quad four(codes[row] + 4 * (quad + chain));
        for (int gate = 0; gate < gates; ++gate) {
          sums[chain][row][gate] = four.added(sums[chain][row][gate], weight[gate]);
        }
      }
      weights += stride;
    }
  }
  for (; quad < quads; ++quad, weights += stride) {
    for (int row = 0; row < rows; ++row) {
      const Quad four(codes[row] + 4 * quad);
      for (int gate = 0; gate < gates; ++gate) {
        sums[0][row][gate] = four.added(sums[0][row][gate], V::load(weights + 64 * gate));
      }
    }
  }
  for (int row = 0; row < rows; ++row) {
    for (int gate = 0; gate < gates; ++gate) {
      Ints sum = sums[0][row][gate];
      for (int chain = 1; chain < kChains; ++chain) sum = V::add32(sum, sums[chain][row][gate]);
      acc[row][gate] = sum;
    }
  }
}

}  // namespace
}  // namespace calib8::engine
