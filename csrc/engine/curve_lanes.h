// Curves behind layers in vectors: 16-bit steps to codes, as words before they are packed to bytes.
//
//   u = clamp(v), i = u >> shift, d = (u << (15 − shift)) mod 2^15
//   y = value[i] + R((R(bend[i]·d) + slope[i])·d) + R((v − u)·slope beyond), code = y >> 6
//
// R is what pmulhrsw does. Segment i lies at i mod 32 of its row. Everything here has internal linkage.
#pragma once

#include "scratch.h"

#if defined(__AVX512BW__)
#include "lanes_avx512.h"
#else
#include "lanes_avx2.h"
#endif

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// The constants of a curve, as often as the widest vector has words.
struct alignas(64) CurveTable {
  static constexpr int kWords = 32;
  int16_t rows[3][kWords];  // value, slope, bend
  int16_t least[kWords], most[kWords], below[kWords], above[kWords];
  int16_t left[kWords], right[kWords];  // shifts of d and i
  int64_t left_bits[2], right_bits[2];  // the same for instructions that take one for all
  bool beyond;                          // the function goes on outside the segments

  CurveTable() = default;
  CurveTable(const Activation& curve, const Memory& memory) {
    if (curve.kind != Activation::kCurve) return;
    const auto* segments = memory.constant<int16_t>(curve.segments);
    for (int i = 0; i < kWords; ++i) {
      for (int row = 0; row < 3; ++row) rows[row][i] = segments[row * kWords + i];
      least[i] = static_cast<int16_t>(curve.least()), most[i] = static_cast<int16_t>(curve.most());
      below[i] = static_cast<int16_t>(curve.below), above[i] = static_cast<int16_t>(curve.above);
      left[i] = static_cast<int16_t>(15 - curve.shift), right[i] = static_cast<int16_t>(curve.shift);
    }
    left_bits[0] = 15 - curve.shift, right_bits[0] = curve.shift;
    left_bits[1] = right_bits[1] = 0;
    beyond = curve.below != 0 || curve.above != 0;
  }
};

#if defined(__AVX512BW__)
inline __m512i shifted_left16(__m512i a, const CurveTable& t) {
  return _mm512_sllv_epi16(a, _mm512_load_si512(t.left));
}
inline __m512i shifted_right16(__m512i a, const CurveTable& t) {
  return _mm512_srav_epi16(a, _mm512_load_si512(t.right));
}
#endif
inline __m128i count_of(const int64_t (&bits)[2]) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bits));
}
inline __m256i shifted_left16(__m256i a, const CurveTable& t) {
  return _mm256_sll_epi16(a, count_of(t.left_bits));
}
inline __m256i shifted_right16(__m256i a, const CurveTable& t) {
  return _mm256_sra_epi16(a, count_of(t.right_bits));
}
inline __m128i shifted_left16(__m128i a, const CurveTable& t) {
  return _mm_sll_epi16(a, count_of(t.left_bits));
}
inline __m128i shifted_right16(__m128i a, const CurveTable& t) {
  return _mm_sra_epi16(a, count_of(t.right_bits));
}

// Picks words of rows of 32 by the low five bits of a word.
template <class L>
class PickedWords {
  using Ints = typename L::Ints;

 public:
#if defined(__AVX512BW__)
  [[gnu::always_inline]] explicit PickedWords(Ints place) : place_(place) {}
  [[gnu::always_inline]] Ints operator()(const int16_t* row) const {
    const __m512i words = _mm512_load_si512(row);
    if constexpr (sizeof(Ints) == 64) {
      return _mm512_permutexvar_epi16(place_, words);
    } else if constexpr (sizeof(Ints) == 32) {
      return _mm512_castsi512_si256(_mm512_permutexvar_epi16(_mm512_castsi256_si512(place_), words));
    } else {
      return _mm512_castsi512_si128(_mm512_permutexvar_epi16(_mm512_castsi128_si512(place_), words));
    }
  }

 private:
  Ints place_;
#else
  // The bytes 2p and 2p + 1 of a row, of which each shuffle reaches 16: it gives 0 for those whose place,
  // counted from its own first one, is none of 0 … 15, for adding 112 to such a byte sets its highest bit.
  [[gnu::always_inline]] explicit PickedWords(Ints place) {
    const Ints inside = L::and_bits(place, L::set16(31));
    const Ints bytes = L::wrap_add16(L::multiply16(inside, L::set16(0x0202)), L::set16(0x0100));
    for (int part = 0; part < 4; ++part) {
      parts_[part] = L::saturated_add8(L::subtract8(bytes, L::set8(16 * part)), L::set8(112));
    }
  }
  [[gnu::always_inline]] Ints operator()(const int16_t* row) const {
    const auto* bytes = reinterpret_cast<const uint8_t*>(row);
    Ints found[4];
    for (int part = 0; part < 4; ++part) {
      found[part] = L::shuffle8(L::lanes(bytes + 16 * part, 0), parts_[part]);
    }
    return L::or_bits(L::or_bits(found[0], found[1]), L::or_bits(found[2], found[3]));
  }

 private:
  Ints parts_[4];
#endif
};

// The words of codes of a vector of steps; `beyond` where the function goes on outside the segments.
template <class L, bool beyond>
class CurveWords {
  using Ints = typename L::Ints;

 public:
  explicit CurveWords(const CurveTable& table) : table_(table) {}

  [[gnu::always_inline]] Ints operator()(Ints v) const {
    const CurveTable& t = table_;
    const Ints u = L::smaller16(L::larger16(v, L::load(t.least)), L::load(t.most));
    const Ints d = L::and_bits(shifted_left16(u, t), L::set16(0x7fff));
    const PickedWords<L> picked(shifted_right16(u, t));
    const Ints bent = L::wrap_add16(L::parts16(picked(t.rows[2]), d), picked(t.rows[1]));
    Ints y = L::add16(picked(t.rows[0]), L::parts16(bent, d));
    if constexpr (beyond) {
      const Ints far = L::subtract16(v, u), none = L::set16(0);
      const Ints above = L::parts16(L::larger16(far, none), L::load(t.above));
      const Ints below = L::parts16(L::smaller16(far, none), L::load(t.below));
      y = L::add16(y, L::wrap_add16(above, below));
    }
    return L::template right16<Activation::kFractionBits>(y);
  }

 private:
  const CurveTable& table_;
};

}  // namespace
}  // namespace calib8::engine
