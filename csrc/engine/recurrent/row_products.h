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
#include <utility>

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

// What is done with 0 … count − 1, as constants: arrays with such indices live in registers. In loops,
// however they are unrolled, the sums of large tiles stay in memory (gcc 12).
template <class Do, size_t... i>
inline void with_each(std::index_sequence<i...>, Do what) {
  (what(std::integral_constant<size_t, i>()), ...);
}
template <int count, class Do>
inline void with_each(Do what) {
  with_each(std::make_index_sequence<count>(), what);
}

// The products of a quad of every row, which is `from` bytes behind the first one.
template <int rows, int gates>
inline void add_quad(const uint8_t* const* codes, int64_t from, const int8_t* weights,
                     Ints (&sums)[rows][gates]) {
  Ints weight[gates];
  with_each<gates>([&](auto gate) { weight[gate] = V::load(weights + 64 * gate); });
  with_each<rows>([&](auto row) {
    const Quad four(codes[row] + from);
    with_each<gates>([&](auto gate) { sums[row][gate] = four.added(sums[row][gate], weight[gate]); });
  });
}

// Sums of `rows` rows of codes and `gates` neighbouring gates. `weights` are those of the group, `stride`
// bytes from a quad to the next; `start` is what the sums begin with.
template <int rows, int gates>
[[gnu::noinline]] void add_products(const uint8_t* const* codes, const int8_t* weights, int64_t stride,
                                    int64_t quads, const int32_t* start, Ints (*acc)[gates]) {
  // Chains hide the latency of dot products; that of a sum is 1.
  constexpr int kChains = !kStoredCodes || rows * gates >= 6 ? 1 : rows * gates >= 3 ? 2 : 4;
  Ints sums[kChains][rows][gates];
  with_each<kChains>([&](auto chain) {
    with_each<rows>([&](auto row) {
      with_each<gates>([&](auto gate) {
        const bool first = kStoredCodes && chain == 0;
        sums[chain][row][gate] = first ? V::numbers(start + gate * Recurrent::kBlock) : V::zero();
      });
    });
  });
  int64_t quad = 0;
  for (; quad + kChains <= quads; quad += kChains) {
    with_each<kChains>([&](auto chain) {
      add_quad<rows, gates>(codes, 4 * (quad + static_cast<int64_t>(chain)), weights, sums[chain]);
      weights += stride;
    });
  }
  for (; quad < quads; ++quad, weights += stride) add_quad<rows, gates>(codes, 4 * quad, weights, sums[0]);
  with_each<rows>([&](auto row) {
    with_each<gates>([&](auto gate) {
      acc[row][gate] = sums[0][row][gate];
      for (int chain = 1; chain < kChains; ++chain) {
        acc[row][gate] = V::add32(acc[row][gate], sums[chain][row][gate]);
      }
    });
  });
}

}  // namespace
}  // namespace calib8::engine
