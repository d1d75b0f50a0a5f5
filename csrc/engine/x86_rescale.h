// Sums of one block of channels as stored codes, in registers.
//
//   float    rint(float32(acc) · factor)                    single   (⌊acc·m / 2^32⌋ + 2^(r−33)) >> (r − 32)
//   double   x = (2·acc·m + 2^31) >> 32, then (x + 2^(e−1) − [x < 0]) >> e
//
// r = 31 − shift ≥ 33 and e = −shift ≥ 1: these forms are for steps whose sums and results stay below 2^30
// and whose shifts are −2 or less. Everything has internal linkage.
#pragma once

#include "steps.h"
#include "x86_lanes.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// L: vectors, and `words`, which loads a quarter of the constants of a block.
template <class L, Rescale::Kind kind>
class CodesOfSums {
  using Ints = typename L::Ints;

 public:
  CodesOfSums(const Rescale& rule, const Memory& memory, int64_t channel)
      : zero_(L::set16(static_cast<int32_t>(rule.zero_point))),
        low_(L::set8(static_cast<int32_t>(rule.low))),
        high_(L::set8(static_cast<int32_t>(rule.high))) {
    const uint8_t* factors = memory.constant<uint8_t>(rule.factor) + channel * 4;
    const uint8_t* shifts =
        kind == Rescale::kFloat ? nullptr : memory.constant<uint8_t>(rule.shift) + channel * 4;
    for (int i = 0; i < 4; ++i) {
      factor_[i] = L::words(factors, i);
      if (kind != Rescale::kFloat) odd_factor_[i] = L::odd_to_even(factor_[i]);
      if (kind != Rescale::kFloat) set_shift(i, L::words(shifts, i));
    }
  }

  // Codes of the sums of four quarters, in the order of the channels.
  [[gnu::always_inline]] Ints operator()(Ints a, Ints b, Ints c, Ints d) const {
    return packed(first_half(a, b), L::add16(L::pack32(scaled(c, 2), scaled(d, 3)), zero_));
  }
  // The same in two steps: quarters 0 and 1, then 2 and 3.
  [[gnu::always_inline]] Ints half(int first, Ints a, Ints b) const {
    return L::add16(L::pack32(scaled(a, first), scaled(b, first + 1)), zero_);
  }
  [[gnu::always_inline]] Ints packed(Ints first, Ints second) const {
    return L::clamp8(L::pack16(first, second), low_, high_);
  }

 private:
  [[gnu::always_inline]] Ints first_half(Ints a, Ints b) const { return half(0, a, b); }

  // m·2^(shift − 31) as what the forms above need: constants to add, shifts to the right.
  void set_shift(int i, Ints shift) {
    constexpr int kWords = sizeof(Ints) / 4;
    alignas(64) int32_t shifts[kWords], rounds[kWords];
    L::store(shifts, shift);
    for (int lane = 0; lane < kWords; ++lane) {
      const int32_t right = kind == Rescale::kSingle ? -1 - shifts[lane] : -shifts[lane];
      rounds[lane] = int32_t{1} << (right - 1);
      shifts[lane] = right;
    }
    right_[i] = L::load(shifts);
    round_[i] = L::load(rounds);
  }

  [[gnu::always_inline]] Ints scaled(Ints acc, int i) const {
    if constexpr (kind == Rescale::kFloat) {
      return L::rounded(L::multiply(L::floats(acc), L::bits(factor_[i])));
    } else {
      if constexpr (kind == Rescale::kDouble) acc = L::add32(acc, acc);  // 2·acc·m >> 32 is acc·m >> 31
      Ints even = L::even_products(acc, factor_[i]),
           odd = L::even_products(L::odd_to_even(acc), odd_factor_[i]);
      if constexpr (kind == Rescale::kSingle) {
        return L::right(L::add32(L::upper_halves(even, odd), round_[i]), right_[i]);
      }
      const Ints high = L::upper_halves(L::add64(even, half_), L::add64(odd, half_));
      return L::right(L::add32(L::add32(high, round_[i]), L::sign(high)), right_[i]);
    }
  }

  Ints zero_, low_, high_;
  Ints half_ = L::set64(int64_t{1} << 31);  // of what the upper half of 64 bits counts
  Ints factor_[4];
  static constexpr int kFixed = kind == Rescale::kFloat ? 1 : 4;
  Ints odd_factor_[kFixed];  // those of the odd places, for the lower halves of 64 bits
  Ints round_[kFixed], right_[kFixed];
};

}  // namespace
}  // namespace calib8::engine
