// Curves behind layers in vectors: 16-bit steps to codes, as words before they are packed to bytes.
//
//   u = clamp(v), i = u >> shift, d = (u << (15 − shift)) mod 2^15
//   y = value[i] + R((R(bend[i]·d) + slope[i])·d) + R((v − u)·slope beyond), code = y >> 6
//
// R is what pmulhrsw does. Segment i lies at i mod 32 of its row. All functions here have internal
// linkage.
#pragma once

#include "scratch.h"

#if defined(__AVX512BW__)
#include "lanes_avx512.h"
#else
#include "lanes_avx2.h"
#endif

namespace calib8::engine {

// The constants of a curve, as often as the widest vector has words. Plain data that files hand on.
struct alignas(64) CurveNumbers {
  static constexpr int kWords = 32;
  int16_t rows[3][kWords];      // value, slope, bend
  uint8_t bytes[3][2][kWords];  // their lower and their upper bytes
  int16_t least[kWords], most[kWords], below[kWords], above[kWords];
  int16_t left[kWords], right[kWords];  // shifts of d and i
  int64_t left_bits[2], right_bits[2];  // the same for instructions that take one for all
  bool whole;                           // the segments are all of 16 bits
  bool both_sides;                      // the line below them is none of codes that stay
};

namespace {  // NOLINT: internal linkage is the point

struct CurveTable : CurveNumbers {
  CurveTable() = default;
  CurveTable(const Activation& curve, const Memory& memory) {
    if (curve.kind != Activation::kCurve) return;
    const auto* segments = memory.constant<int16_t>(curve.segments);
    for (int row = 0; row < 3; ++row) {
      for (int i = 0; i < kWords; ++i) {
        const int16_t word = segments[row * kWords + i];
        rows[row][i] = word;
        bytes[row][0][i] = static_cast<uint8_t>(word & 255);
        bytes[row][1][i] = static_cast<uint8_t>((word >> 8) & 255);
      }
    }
    for (int i = 0; i < kWords; ++i) {
      least[i] = static_cast<int16_t>(curve.least()), most[i] = static_cast<int16_t>(curve.most());
      below[i] = static_cast<int16_t>(curve.below), above[i] = static_cast<int16_t>(curve.above);
      left[i] = static_cast<int16_t>(15 - curve.shift), right[i] = static_cast<int16_t>(curve.shift);
    }
    left_bits[0] = 15 - curve.shift, right_bits[0] = curve.shift;
    left_bits[1] = right_bits[1] = 0;
    whole = is_whole(curve);
    both_sides = curve.below != 0;
  }

  static bool is_whole(const Activation& curve) {
    return curve.least() == INT16_MIN && curve.most() == INT16_MAX;
  }
};

#if defined(__AVX512BW__)
inline __m512i shifted_left16(__m512i a, __m512i count) { return _mm512_sllv_epi16(a, count); }
inline __m512i shifted_right16(__m512i a, __m512i count) { return _mm512_srav_epi16(a, count); }
inline __m256i shifted_left16(__m256i a, __m256i count) { return _mm256_sllv_epi16(a, count); }
inline __m256i shifted_right16(__m256i a, __m256i count) { return _mm256_srav_epi16(a, count); }
inline __m128i shifted_left16(__m128i a, __m128i count) { return _mm_sllv_epi16(a, count); }
inline __m128i shifted_right16(__m128i a, __m128i count) { return _mm_srav_epi16(a, count); }
#else
inline __m128i count_of(const int64_t (&bits)[2]) {
  return _mm_load_si128(reinterpret_cast<const __m128i*>(bits));
}
inline __m256i shifted_left16(__m256i a, const CurveNumbers& t) {
  return _mm256_sll_epi16(a, count_of(t.left_bits));
}
inline __m256i shifted_right16(__m256i a, const CurveNumbers& t) {
  return _mm256_sra_epi16(a, count_of(t.right_bits));
}
inline __m128i shifted_left16(__m128i a, const CurveNumbers& t) {
  return _mm_sll_epi16(a, count_of(t.left_bits));
}
inline __m128i shifted_right16(__m128i a, const CurveNumbers& t) {
  return _mm_sra_epi16(a, count_of(t.right_bits));
}
#endif

#if defined(__AVX512BW__)
// Segments by the low five bits of words.
template <class Ints>
[[gnu::always_inline]] inline Ints picked(__m512i words, Ints place) {
  if constexpr (sizeof(Ints) == 64) {
    return _mm512_permutexvar_epi16(place, words);
  } else if constexpr (sizeof(Ints) == 32) {
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(_mm512_castsi256_si512(place), words));
  } else {
    return _mm512_castsi512_si128(_mm512_permutexvar_epi16(_mm512_castsi128_si512(place), words));
  }
}
#else
// Segments of two vectors of steps by the low five bits of their words.
template <class L>
class Segments {
  using Ints = typename L::Ints;

 public:
  // Places as bytes, those of both vectors side by side. A shuffle reaches 16 of the 32 bytes of a row: it
  // gives 0 for a place, counted from its own first one, that is none of 0 … 15, for adding 112 to such a
  // byte sets its highest bit.
  [[gnu::always_inline]] Segments(const CurveNumbers& table, Ints first, Ints second) : table_(table) {
    const Ints mask = L::set16(31), far = L::set8(112);
    const Ints places = L::pack16(L::and_bits(first, mask), L::and_bits(second, mask));
    lower_ = L::saturated_add8(places, far);
    upper_ = L::saturated_add8(L::subtract8(places, L::set8(16)), far);
  }
  [[gnu::always_inline]] void pick(int row, Ints& first, Ints& second) const {
    const Ints low = picked(table_.bytes[row][0]), high = picked(table_.bytes[row][1]);
    first = L::low8(low, high), second = L::high8(low, high);
  }

 private:
  [[gnu::always_inline]] Ints picked(const uint8_t* bytes) const {
    return L::or_bits(L::shuffle8(L::lanes(bytes, 0), lower_), L::shuffle8(L::lanes(bytes + 16, 0), upper_));
  }

  const CurveNumbers& table_;
  Ints lower_, upper_;
};
#endif

// Vectors of steps become words of codes; `whole` where the segments are all of 16 bits. With 32 registers
// the segments lie in three of them.
template <class L, bool whole>
class CurveWords {
  using Ints = typename L::Ints;

 public:
  // Steps become 8-bit codes, or what comes before them: 64 parts of a code.
  [[gnu::always_inline]] void both(Ints& first, Ints& second) const {
    values(first, second);
    first = code_of(first), second = code_of(second);
  }
  [[gnu::always_inline]] static Ints code_of(Ints y) {
    return L::template right16<Activation::kFractionBits>(y);
  }

#if defined(__AVX512BW__)
  [[gnu::always_inline]] explicit CurveWords(const CurveNumbers& table) : both_sides_(table.both_sides) {
    for (int row = 0; row < 3; ++row) rows_[row] = kept(_mm512_load_si512(table.rows[row]));
    if constexpr (!whole) {
      least_ = kept(L::load(table.least)), most_ = kept(L::load(table.most));
      below_ = L::load(table.below), above_ = kept(L::load(table.above));
      left_ = kept(L::load(table.left)), right_ = kept(L::load(table.right));
    }
  }

  [[gnu::always_inline]] void values(Ints& first, Ints& second) const {
    first = value(first), second = value(second);
  }
  [[gnu::always_inline]] Ints operator()(Ints v) const { return code_of(value(v)); }
  [[gnu::always_inline]] Ints value(Ints v) const {
    if constexpr (whole) return inside(L::template right16<kShift>(v), L::template left16<15 - kShift>(v));
    const Ints m = L::smaller16(v, most_), u = L::larger16(m, least_);
    Ints y = inside(shifted_right16(u, right_), shifted_left16(u, left_));
    y = L::add16(y, L::parts16(L::subtract16(v, m), above_));
    if (__builtin_expect(both_sides_, 0)) y = L::add16(y, L::parts16(L::subtract16(m, u), below_));
    return y;
  }

 private:
  static constexpr int kShift = Activation::kMostShift;
  template <class T>
  [[gnu::always_inline]] static T kept(T value) {
    asm("" : "+v"(value));
    return value;
  }
  [[gnu::always_inline]] Ints inside(Ints place, Ints part) const {
    const Ints d = L::and_bits(part, L::set16(0x7fff));
    const Ints bent = L::wrap_add16(L::parts16(picked(rows_[2], place), d), picked(rows_[1], place));
    return L::add16(picked(rows_[0], place), L::parts16(bent, d));
  }
  __m512i rows_[3];
  Ints least_, most_, below_, above_, left_, right_;
  bool both_sides_;
#else
  explicit CurveWords(const CurveNumbers& table) : table_(table) {}

  [[gnu::always_inline]] void values(Ints& first, Ints& second) const {
    const Ints u = inside(first), w = inside(second);
    const Segments<L> segments(table_, shifted_right16(u, table_), shifted_right16(w, table_));
    Ints value[2], slope[2], bend[2];
    segments.pick(2, bend[0], bend[1]);
    segments.pick(1, slope[0], slope[1]);
    segments.pick(0, value[0], value[1]);
    first = line(first, u, value[0], slope[0], bend[0]);
    second = line(second, w, value[1], slope[1], bend[1]);
  }

 private:
  [[gnu::always_inline]] Ints inside(Ints v) const {
    return whole ? v : L::smaller16(L::larger16(v, L::load(table_.least)), L::load(table_.most));
  }
  [[gnu::always_inline]] Ints line(Ints v, Ints u, Ints value, Ints slope, Ints bend) const {
    const Ints d = L::and_bits(shifted_left16(u, table_), L::set16(0x7fff));
    const Ints bent = L::wrap_add16(L::parts16(bend, d), slope);
    Ints y = L::add16(value, L::parts16(bent, d));
    if constexpr (!whole) {
      const Ints far = L::subtract16(v, u), none = L::set16(0);
      const Ints above = L::parts16(L::larger16(far, none), L::load(table_.above));
      const Ints below = L::parts16(L::smaller16(far, none), L::load(table_.below));
      y = L::add16(y, L::wrap_add16(above, below));
    }
    return y;
  }

  const CurveNumbers& table_;
#endif
};

}  // namespace
}  // namespace calib8::engine
