// Ends of layers with 16-bit codes: rows of int32 sums in the first cache become codes of 8 or 16 bits.
//
//   steps of 32 bits → words, saturated → (curve) → words stored, or packed to bytes
//
// Sums of a block of channels lie as vectors of kLanes: in the order of the channels, or as depthwise kernels
// make them, for each kWords channels first the lower, then the upper halves of every 128 bits. Everything
// has internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "curve_lanes.h"
#include "lanes_double.h"
#include "lanes_fixed.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// kSmall: float factors so small that nothing comes near the end of int32. kSmallSingle,
// and kSingle where instructions round as they are told: fixed point in float64. kFixed: all rules in
// integers.
enum class SumsWay { kSmall, kSmallSingle, kSingle, kFloat, kTwoSided, kCurve, kWholeCurve, kFixed };
constexpr bool is_curve(SumsWay way) { return way == SumsWay::kCurve || way == SumsWay::kWholeCurve; }
// Zero points of 8-bit codes may be added to saturated words.
constexpr bool adds_words(SumsWay way, bool wide) {
  return (way == SumsWay::kSmall || way == SumsWay::kSmallSingle) && !wide;
}

// No sum of `products` of weights with codes of 8 bits is larger; with those of 16 bits it fits int32.
inline int64_t largest_sum(int64_t products, int64_t input_size, const int32_t* bias, int64_t channels) {
  if (input_size == 2) return int64_t{1} << 31;
  int64_t most = 0;
  for (int64_t c = 0; c < channels; ++c) most = std::max(most, std::abs(int64_t{bias[c]}));
  return products * 255 * 128 + most;
}

// Rows of sums and where their codes go.
struct SumsRows {
  const int32_t* sums;
  int64_t stride, count;   // numbers from one row to the next, rows
  uint8_t* output;         // of the block's first channel
  const int64_t* offsets;  // codes, per row
};

// The end of a layer: `begin` for every block of channels, then `rows` for some of its pixels.
class SumsEnd {
 public:
  static constexpr int64_t kWords = kWidth / 2, kMost = 64;
  enum class Order { kChannels, kHalves };

  SumsEnd(const Rescale& rule, const Activation& activation, int64_t output_size, const Memory& memory,
          Order order)
      : rule_(rule), activation_(activation), memory_(memory), order_(order), wide_(output_size == 2) {
    if (activation.kind == Activation::kCurve) curve_ = CurveTable(activation, memory);
    set_places();
  }

  // The block of `channels` whose first one is entry `place` of the arrays; it has `entries` there, at
  // most 64. No sum is beyond ±largest.
  void begin(int64_t place, int64_t entries, int64_t channels, int64_t largest = int64_t{1} << 31) {
    channels_ = channels, entries_ = entries, largest_ = static_cast<double>(largest);
    const auto* factor = memory_.constant<int32_t>(rule_.factor) + place;
    load(factor, factor_);
    if (rule_.kind != Rescale::kFloat) load(memory_.constant<int32_t>(rule_.shift) + place, shift_);
    if (activation_.kind == Activation::kTwoSided) {
      load(memory_.constant<int32_t>(activation_.negative) + place, negative_);
      if (rule_.kind != Rescale::kFloat) {
        load(memory_.constant<int32_t>(activation_.negative_shift) + place, negative_shift_);
      }
    }
    way_ = find_way(), run_ = run_of();
  }

  void rows(const SumsRows& rows) const {
    if (way_ != SumsWay::kSmallSingle) return (this->*run_)(rows);
    rounding_down([&] { (this->*run_)(rows); });
  }

  // Factors of the block, one after the other; those of float64 where it ends by kSmallSingle.
  SumsWay way() const { return way_; }
  const int32_t* factors() const { return factor_; }
  const double* scaled() const { return scaled_; }

 private:
  using Run = void (SumsEnd::*)(const SumsRows&) const;

  // Places of the packed words and codes in memory, in numbers of 32 bits.
  void set_places() {
    constexpr int kCount = static_cast<int>(kLanes), kRows = kCount / 4;
    alignas(64) int32_t words[kCount], codes[kCount];
    for (int i = 0; i < kCount; ++i) {
      const int half = i / (kCount / 2), rest = i % (kCount / 2);
      const int halves = rest / 2 * 4 + half * 2 + rest % 2;
      words[i] = order_ == Order::kChannels ? halves : i;
      codes[i] = order_ == Order::kChannels ? i % kRows * 4 + i / kRows : halves;
    }
    word_places_ = V::load(words), code_places_ = V::load(codes);
  }

  // Constants in the order of the sums.
  void load(const int32_t* from, int32_t* to) const {
    if (order_ == Order::kChannels) {
      const int64_t next = several() ? entries_ : kMost;
      for (int64_t first = 0; first < kMost; first += next) {
        std::memcpy(to + first, from, static_cast<size_t>(entries_) * sizeof *to);
      }
      return;
    }
    for (int64_t i = 0; i < entries_; ++i) {
      const int64_t word = i / kWords * kWords, inside = i % kWords;
      to[i] = from[word + inside % kLanes / 4 * 8 + inside / kLanes * 4 + inside % 4];
    }
  }

  static constexpr double kMostSteps = 1 << 29;  // of kSmall and kSmallSingle
  bool small() const {
    bool found = true;
    for (int64_t i = 0; i < entries_; ++i) {
      float factor;
      std::memcpy(&factor, factor_ + i, sizeof factor);
      found = found && factor * largest_ < kMostSteps && factor * largest_ > -kMostSteps;
    }
    return found;
  }

  bool small_single() {
    bool found = true;
    for (int64_t i = 0; i < kMost; ++i) {
      const int64_t power = static_cast<int64_t>(1023 - 31 + shift_[i]) << 52;  // 2^(shift − 31) as bits
      double by;
      std::memcpy(&by, &power, sizeof by);
      scaled_[i] = factor_[i] * by;
      found &= scaled_[i] * largest_ < kMostSteps && scaled_[i] * largest_ > -kMostSteps;
    }
    return found;
  }

  SumsWay find_way() {
    if (rule_.kind == Rescale::kSingle && activation_.kind == Activation::kNone) {
      if (small_single()) return SumsWay::kSmallSingle;
      if (kWidth == 64) return SumsWay::kSingle;
    }
    if (rule_.kind != Rescale::kFloat) return SumsWay::kFixed;
    if (activation_.kind == Activation::kTwoSided) return SumsWay::kTwoSided;
    if (activation_.kind == Activation::kCurve) {
      return curve_.whole ? SumsWay::kWholeCurve : SumsWay::kCurve;
    }
    return small() ? SumsWay::kSmall : SumsWay::kFloat;
  }
  Run run_of() const {
    switch (way_) {
      case SumsWay::kSmall:
        return either<SumsWay::kSmall>();
      case SumsWay::kSmallSingle:
        return either<SumsWay::kSmallSingle>();
#if defined(__AVX512BW__)
      case SumsWay::kSingle:
        return either<SumsWay::kSingle>();
#endif
      case SumsWay::kFloat:
        return either<SumsWay::kFloat>();
      case SumsWay::kTwoSided:
        return either<SumsWay::kTwoSided>();
      case SumsWay::kCurve:
        return either<SumsWay::kCurve>();
      case SumsWay::kWholeCurve:
        return either<SumsWay::kWholeCurve>();
      default:
        return either<SumsWay::kFixed>();
    }
  }
  template <SumsWay way>
  Run either() const {
    return wide_ ? &SumsEnd::run<way, true> : &SumsEnd::run<way, false>;
  }

  // kLanes sums as whole numbers that pack32 saturates, with the zero point in them where there is no curve
  // and no word that has it added; kSmallSingle makes words of twice the numbers.
  template <SumsWay way, bool wide>
  [[gnu::always_inline]] Ints steps(Ints acc, int64_t at) const {
    if constexpr (way == SumsWay::kFixed) return fixed_steps(acc, at);
    if constexpr (way == SumsWay::kSmallSingle) {
      const Ints twice = Halves()(acc, scaled_ + at);
      return wide ? V::add32(V::right<1>(twice), all_int(rule_.zero_point)) : twice;
    }
#if defined(__AVX512BW__)
    if constexpr (way == SumsWay::kSingle) {
      const Doubles low = all_double(static_cast<double>(least())),
                    high = all_double(static_cast<double>(most()));
      const Ints value = floors(clamped(single_products(acc, scaled_ + at), low, high));
      return V::add32(value, all_int(rule_.zero_point));
    }
#endif
    Ints factor = V::load(factor_ + at);
    if constexpr (way == SumsWay::kTwoSided) factor = V::by_sign32(acc, factor, V::load(negative_ + at));
    Floats value = V::multiply(V::floats(acc), V::bits(factor));
    if constexpr (is_curve(way)) return V::rounded(value);
    if constexpr (way != SumsWay::kSmall) value = clamped(value, all_float(least()), all_float(most()));
    if constexpr (adds_words(way, wide)) return V::rounded(value);
    return V::add32(V::rounded(value), all_int(rule_.zero_point));
  }

  [[gnu::noinline]] Ints fixed_steps(Ints acc, int64_t at) const {
    Ints multiplier = V::load(factor_ + at), shift = V::load(shift_ + at);
    if (activation_.kind == Activation::kTwoSided) {
      multiplier = V::by_sign32(acc, multiplier, V::load(negative_ + at));
      shift = V::by_sign32(acc, shift, V::load(negative_shift_ + at));
    }
    const Ints value =
        rule_.kind == Rescale::kSingle   ? multiply_fixed<Rescale::kSingle>(acc, multiplier, shift)
        : rule_.kind == Rescale::kDouble ? multiply_fixed<Rescale::kDouble>(acc, multiplier, shift)
                                         : multiply_fixed<Rescale::kAway>(acc, multiplier, shift);
    if (activation_.kind == Activation::kCurve) return value;
    return V::add32(V::max32(V::min32(value, all_int(most())), all_int(least())), all_int(rule_.zero_point));
  }
  int64_t least() const { return rule_.low - rule_.zero_point; }
  int64_t most() const { return rule_.high - rule_.zero_point; }

  // Words of a curve's values become words of codes.
  template <bool wide>
  [[gnu::always_inline]] static Words code_words(Words y) {
    if constexpr (!wide) return V::right16<Activation::kFractionBits>(y);
    y = V::subtract16(y, V::set16(1 << 13));  // 4·(y − 2^13), saturated
    y = V::add16(y, y);
    return V::add16(y, y);
  }

  template <SumsWay way, bool wide>
  void run(const SumsRows& rows) const {
    if constexpr (is_curve(way)) {
      through_curve<way, wide, way == SumsWay::kWholeCurve>(rows);
    } else if constexpr (way == SumsWay::kFixed) {
      if (activation_.kind == Activation::kCurve) return through_curve<way, wide, false>(rows);
      each_row<way, wide, false>(rows, [](Words&, Words&) {});
    } else {
      each_row<way, wide, false>(rows, [](Words&, Words&) {});
    }
  }
  template <SumsWay way, bool wide, bool whole>
  void through_curve(const SumsRows& rows) const {
    const CurveWords<V, whole> curve(curve_);
    each_row<way, wide, true>(rows, [&](Words& first, Words& second) { curve.values(first, second); });
  }

  // Rows of 16 or 32 sums, several of which fill the vectors of one row.
  bool several() const { return kWidth == 64 && order_ == Order::kChannels && entries_ <= kWords; }

  template <SumsWay way, bool wide, bool curved, class Curve>
  [[gnu::always_inline]] void each_row(const SumsRows& rows, const Curve& curve) const {
    constexpr int64_t kSize = wide ? 2 : 1;
    const Clamp<wide> clamp(rule_);
    const auto codes_at = [&](const int32_t* sums, int64_t at, bool two, Words& one,
                              Words& other) __attribute__((always_inline)) {
      one = other = words_at<way, wide>(sums, at);
      if (two) other = words_at<way, wide>(sums + kWords, at + kWords);
      curve(one, other);
      if constexpr (curved) one = code_words<wide>(one), other = code_words<wide>(other);
      if constexpr (wide) {
        one = V::permute32(clamp(one), word_places_), other = V::permute32(clamp(other), word_places_);
      } else {
        one = clamp(V::permute32(V::pack16(one, other), code_places_));
      }
    };
#if defined(__AVX512BW__)
    if (several() && rows.stride == entries_) {
      for (int64_t row = 0, next = kMost / entries_; row < rows.count; row += next) {
        Words one, other;
        codes_at(rows.sums + row * entries_, 0, true, one, other);
        put_several<wide>(rows, row, one, other);
      }
      return;
    }
#endif
    for (int64_t first = 0; first < channels_; first += 2 * kWords) {
      const bool two = channels_ - first > kWords;
      const int64_t bytes = (channels_ - first) * kSize;
      const int32_t* sums = rows.sums + first;
      for (int64_t row = 0; row < rows.count; ++row, sums += rows.stride) {
        Words one, other;
        codes_at(sums, first, two, one, other);
        uint8_t* to = rows.output + (rows.offsets[row] + first) * kSize;
        put(to, one, bytes);
        if (wide && two) put(to + kWidth, other, bytes - kWidth);
      }
    }
  }

#if defined(__AVX512BW__)
  // Codes of rows that lie in a vector (two of words) one after the other.
  template <bool wide>
  [[gnu::always_inline]] void put_several(const SumsRows& rows, int64_t row, Words one, Words other) const {
    const int64_t bytes = channels_ * (wide ? 2 : 1), size = entries_ * (wide ? 2 : 1);
    const int64_t last = rows.count - 1 - row;
    const auto to = [&](int64_t i) { return rows.output + rows.offsets[row + i] * (wide ? 2 : 1); };
    if (size == 64) {
      put(to(0), one, bytes);
      if (last >= 1) put(to(1), other, bytes);
    } else if (size == 32) {
      for (int i = 0; i < (wide ? 4 : 2) && i <= last; ++i) {
        Lanes<32>::store_some(to(i), V::half(i < 2 ? one : other, i % 2), bytes);
      }
    } else {
      for (int i = 0; i < 4 && i <= last; ++i) Lanes<16>::store_some(to(i), V::lane(one, i), bytes);
    }
  }
#endif

  // Words of 16-bit codes, or bytes, within the clamp; those that saturate there already stay.
  template <bool wide>
  struct Clamp {
    Ints low, high;
    bool some;

    explicit Clamp(const Rescale& rule)
        : low(wide ? V::set16(static_cast<int32_t>(rule.low)) : V::set8(static_cast<int32_t>(rule.low))),
          high(wide ? V::set16(static_cast<int32_t>(rule.high)) : V::set8(static_cast<int32_t>(rule.high))),
          some(wide ? rule.low > INT16_MIN || rule.high < INT16_MAX : rule.low > 0 || rule.high < 255) {}
    [[gnu::always_inline]] Ints operator()(Ints codes) const {
      if (!some) return codes;
      return wide ? V::smaller16(V::larger16(codes, low), high) : V::clamp8(codes, low, high);
    }
  };

  template <SumsWay way, bool wide>
  [[gnu::always_inline]] Words words_at(const int32_t* sums, int64_t at) const {
    const Words words =
        V::pack32(steps<way, wide>(V::load(sums), at), steps<way, wide>(V::load(sums + kLanes), at + kLanes));
    if constexpr (adds_words(way, wide)) {
      constexpr int kMore = way == SumsWay::kSmallSingle ? 1 : 0;
      const Words moved = V::add16(words, V::set16(static_cast<int32_t>(rule_.zero_point << kMore)));
      return kMore == 0 ? moved : V::right16<1>(moved);
    }
    return words;
  }
  [[gnu::always_inline]] static void put(uint8_t* to, Ints codes, int64_t bytes) {
    if (__builtin_expect(bytes >= kWidth, 1)) return V::store(to, codes);
    V::store_some(to, codes, bytes);
  }

  const Rescale& rule_;
  const Activation& activation_;
  const Memory& memory_;
  Order order_;
  bool wide_;
  int64_t channels_ = 0, entries_ = 0;
  double largest_ = 0;
  SumsWay way_ = SumsWay::kFixed;
  Run run_ = nullptr;
  CurveTable curve_;
  Ints word_places_, code_places_;
  // 0 where a block has no entries
  alignas(64) int32_t factor_[kMost] = {}, shift_[kMost] = {}, negative_[kMost] = {},
                      negative_shift_[kMost] = {};
  alignas(64) double scaled_[kMost];  // kSingle and kSmallSingle
};

}  // namespace
}  // namespace calib8::engine
