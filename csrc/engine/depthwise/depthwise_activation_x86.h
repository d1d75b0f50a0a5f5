// Rules of depthwise layers that no form in registers takes: sums of a block of channels, from memory to
// memory.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "depthwise_task.h"
#include "lanes_fixed.h"
#include "strip_avx2.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

// Functions behind fixed-point factors of any kind and size: sums become words, then codes.
template <class L>
class FixedActivation {
  using Halves = Lanes<32>;

 public:
  explicit FixedActivation(const Task& task)
      : rule_(task.step.rescale),
        two_sided_(task.step.activation.kind == Activation::kTwoSided),
        multiplier_(channels_of(task, rule_.factor)),
        shift_(channels_of(task, rule_.shift)),
        negative_(channels_of(task, task.step.activation.negative)),
        negative_shift_(channels_of(task, task.step.activation.negative_shift)) {}

  void codes(const CurveTable& curve, const int32_t* sums, uint8_t* codes) const {
    alignas(64) int16_t words[kMostWords] = {};
    switch (rule_.kind) {
      case Rescale::kDouble:
        make_words<Rescale::kDouble>(sums, words);
        break;
      case Rescale::kSingle:
        make_words<Rescale::kSingle>(sums, words);
        break;
      default:
        make_words<Rescale::kAway>(sums, words);
    }
    for (int first = 0; first < L::kChannels; first += 2 * kStrip) {
      if (two_sided_) {
        put_codes(words + first, codes + first);
      } else {
        StripSums::curve_words(curve, words + first, static_cast<int32_t>(rule_.low),
                               static_cast<int32_t>(rule_.high), codes + first);
      }
    }
  }

 private:
  static constexpr int kMostWords = L::kChannels < 2 * kStrip ? 2 * kStrip : L::kChannels;

  static const int32_t* channels_of(const Task& task, int64_t constant) {
    const auto* first = task.memory.constant<int32_t>(constant);
    return first == nullptr ? nullptr : first + task.channel;
  }

  // Saturated at 16 bits.
  template <int64_t kKind>
  void make_words(const int32_t* sums, int16_t* words) const {
    for (int i = 0; i < L::kChannels; i += static_cast<int>(kLanes)) {
      const Ints acc = V::load(sums + i);
      Ints multiplier = V::load(multiplier_ + i), shift = V::load(shift_ + i);
      if (two_sided_) {
        multiplier = V::by_sign32(acc, multiplier, V::load(negative_ + i));
        shift = V::by_sign32(acc, shift, V::load(negative_shift_ + i));
      }
      V::store_words(words + i, multiply_fixed<kKind>(acc, multiplier, shift));
    }
  }
  void put_codes(const int16_t* words, uint8_t* codes) const {
    const auto zero = Halves::set16(static_cast<int32_t>(rule_.zero_point));
    const auto first = Halves::add16(Halves::load(words), zero);
    const auto second = Halves::add16(Halves::load(words + kStrip), zero);
    const auto bytes = _mm256_permute4x64_epi64(Halves::pack16(first, second), 0xD8);
    Halves::store(codes, Halves::clamp8(bytes, Halves::set8(static_cast<int32_t>(rule_.low)),
                                        Halves::set8(static_cast<int32_t>(rule_.high))));
  }

  const Rescale& rule_;
  bool two_sided_;
  const int32_t *multiplier_, *shift_, *negative_, *negative_shift_;  // of the block
};

// Every rule, by strips where these have vectors for it: one way for the block.
template <class L>
class AnyRule {
  static constexpr int kStrips = L::kChannels / kStrip;
  template <class Strip>
  using Strips = std::array<Strip, kStrips>;

 public:
  explicit AnyRule(const Task& task)
      : task_(task), curve_(task.step.activation, task.memory), fixed_(task), way_(way_of()) {}

  void store(const int32_t* sums, uint8_t* output) const {
    alignas(64) uint8_t codes[L::kChannels < 2 * kStrip ? 2 * kStrip : L::kChannels];
    switch (way_) {
      case Way::kStrips:
        for (int i = 0; i * kStrip < task_.channels; ++i) {
          integers_[i].rows(curve_, sums + i * kStrip, kStrip, 1, {codes + i * kStrip, nullptr, kStrip});
        }
        break;
      case Way::kFloat:
        for (int i = 0; i * kStrip < task_.channels; ++i) {
          floats_[i].codes(curve_, sums + i * kStrip, codes + i * kStrip);
        }
        break;
      case Way::kActive:
        fixed_.codes(curve_, sums, codes);
        break;
      default:
        for (int64_t c = 0; c < task_.channels; ++c) {
          codes[c] = rescaled(task_.step.rescale, task_.memory, sums[c], task_.channel + c);
        }
    }
    std::memcpy(output, codes, static_cast<size_t>(task_.channels));
  }

 private:
  enum class Way { kStrips, kFloat, kActive, kSingly };

  Way way_of() const {
    bool taken = true;
    for (const FixedStrip& strip : integers_) taken = taken && strip.taken();
    if (taken) return Way::kStrips;
    if (task_.step.activation.kind == Activation::kNone) return Way::kSingly;
    return task_.step.rescale.kind == Rescale::kFloat ? Way::kFloat : Way::kActive;
  }
  template <int... strip>
  Strips<StripActivation<StripSums>> floats(std::integer_sequence<int, strip...>) const {
    const Depthwise& step = task_.step;
    return {StripActivation<StripSums>(step.rescale, step.activation, task_.memory,
                                       task_.channel + kStrip * strip)...};
  }
  template <int... strip>
  Strips<FixedStrip> integers(std::integer_sequence<int, strip...>) const {
    const Depthwise& step = task_.step;
    return {FixedStrip::of_integers(step.rescale, step.activation, task_.memory,
                                    task_.channel + kStrip * strip, step.narrow != 0)...};
  }

  const Task& task_;
  CurveTable curve_;
  FixedActivation<L> fixed_;
  Strips<StripActivation<StripSums>> floats_ = floats(std::make_integer_sequence<int, kStrips>());
  Strips<FixedStrip> integers_ = integers(std::make_integer_sequence<int, kStrips>());
  Way way_;  // set last
};

}  // namespace
}  // namespace calib8::engine
