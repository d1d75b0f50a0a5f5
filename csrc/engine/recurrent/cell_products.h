// Products of recurrent layers: rows of codes times the gates of a group of units, as many as a vector has
// lanes.
//
//                      weights of a quad of codes, loaded once for all rows
//                      gate 0         gate 1         gate 2         gate 3
//   row 0  4 codes ──► acc[0][0]      acc[0][1]      acc[0][2]      acc[0][3]
//   row 1  4 codes ──► acc[1][0]      …
//
// With dot products codes are taken as they are stored, plus 128, and sums begin with −128·Σw. Without,
// 16-bit products are those of |code| and of the weight with the sign of the code: 2·127² fits.
#pragma once

#include "lanes.h"
#include "sequences.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr bool kStoredCodes = true;
#else
constexpr bool kStoredCodes = false;
#endif
constexpr int kRowsAtATime = kWidth == 64 ? 6 : 2;  // of x, whose gates of one group fill the registers
static_assert(kRowsAtATime <= kCellRows);
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

// fl(Σ) · fl(scale · scales of the weights)
inline Floats scaled_sum(Ints sum, float scale, const float* scales) {
  return V::multiply(V::floats(sum), V::multiply(V::all(scale), V::numbers(scales)));
}

// u of the formulas for some rows and a group of units.
template <int rows, int gates>
void input_tile(const Direction& direction, const CellScratch& scratch, int64_t row, int64_t block,
                int64_t group) {
  const uint8_t* codes[rows];
  for (int i = 0; i < rows; ++i) codes[i] = scratch.inputs + (row + i) * scratch.row_bytes;
  const int64_t lane = block * gates * Recurrent::kBlock + group * kLanes, stride = 64 * gates;
  const int8_t* weights = direction.weight + block * direction.input_quads * stride + group * kWidth;
  Ints acc[rows][gates];
  add_products<rows, gates>(codes, weights, stride, direction.input_quads, direction.weight_sum + lane, acc);
  for (int i = 0; i < rows; ++i) {
    for (int gate = 0; gate < gates; ++gate) {
      const int64_t at = lane + gate * Recurrent::kBlock;
      const Floats value = scaled_sum(acc[i][gate], scratch.scales[row + i], direction.weight_scale + at);
      const Floats moved = V::add(value, V::numbers(direction.bias + at));
      V::store(scratch.sums + (row + i) * scratch.lanes + at, V::as_ints(moved));
    }
  }
}

template <int rows, int gates>
void input_rest(const Direction& direction, const CellScratch& scratch, int64_t row, int64_t left,
                int64_t block, int64_t group) {
  if constexpr (rows > 0) {
    if (left == rows) return input_tile<rows, gates>(direction, scratch, row, block, group);
    input_rest<rows - 1, gates>(direction, scratch, row, left, block, group);
  }
}

template <int gates>
void multiply_inputs_of(const Direction& direction, const CellScratch& scratch, int64_t rows) {
  for (int64_t block = 0; block < direction.blocks; ++block) {
    for (int64_t group = 0; group < kGroups; ++group) {
      int64_t row = 0;
      for (; row + kRowsAtATime <= rows; row += kRowsAtATime) {
        input_tile<kRowsAtATime, gates>(direction, scratch, row, block, group);
      }
      input_rest<kRowsAtATime - 1, gates>(direction, scratch, row, rows - row, block, group);
    }
  }
}

// Codes plus 128 of a row, and its scale.
inline float code_lanes(const float* values, int64_t count, uint8_t* codes) {
  Ints largest = V::zero();
  for (int64_t i = 0; i < count; i += kLanes) {
    largest = V::max32(largest, V::as_ints(magnitude_of(V::numbers(values + i))));
  }
  int32_t lanes[kLanes], most = 0;
  V::store(lanes, largest);
  for (const int32_t lane : lanes) most = lane > most ? lane : most;
  const auto bits = static_cast<uint32_t>(most);
  if (bits >= kInfinity || bits < kLeastCoded) {
    for (int64_t i = 0; i < count; ++i) codes[i] = 128;
    return bits >= kInfinity ? number_of(kNotANumber) : 0.0F;
  }
  const Floats factor = V::all(127.0F / number_of(bits));
  const Ints low = V::all(-127), high = V::all(127), shift = V::all(128);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Ints code = V::rounded(V::multiply(V::numbers(values + i), factor));
    V::store_numbers(codes + i, V::add32(V::min32(V::max32(code, low), high), shift), count - i);
  }
  return number_of(bits) / 127.0F;
}

}  // namespace
}  // namespace calib8::engine
