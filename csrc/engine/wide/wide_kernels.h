// Planes of 16-bit codes and the ends of their layers: loops over runs of elements that every instruction
// set's compiler turns into vectors.
//
// A sum of 41 bits is exact in float64, and float64 → float32 is its one rounding. Everything here has
// internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>
#include <cmath>

#include "../curve_lanes.h"
#include "../reference/reference.h"
#include "../wide_rules.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kRun = 64;  // elements that are taken together

// Calls take(lhs, rhs, output, index along the last axis, count) for runs of a share that lie side by side.
template <class Take>
void each_run(const Pair& pair, Part part, const Take& take) {
  const int64_t inner = pair.sizes[kAxes - 1];
  int64_t count = 1;
  for (const int64_t size : pair.sizes) count *= size;
  const Range mine = share(part, count, kRun);
  for (int64_t element = mine.begin; element < mine.end;) {
    const int64_t index = element % inner, run = std::min(inner - index, mine.end - element);
    int64_t rest = element / inner, lhs = index, rhs = index, output = index;
    for (int axis = kAxes - 2; axis >= 0; --axis) {
      const int64_t at = rest % pair.sizes[axis];
      rest /= pair.sizes[axis];
      lhs += at * pair.lhs_strides[axis];
      rhs += at * pair.rhs_strides[axis];
      output += at * pair.output_strides[axis];
    }
    take(lhs, rhs, output, index, run);
    element += run;
  }
}

void plane(const Plane& step, const Memory& memory, Part part) {
  const Single& tensors = step.tensors;
  if (tensors.input_strides[kAxes - 1] != 1 || tensors.output_strides[kAxes - 1] != 1) {
    return reference_plane(step, memory, part);
  }
  const int16_t* input = memory.data<int16_t>(tensors.input_buffer, tensors.input_offset);
  uint8_t* output = memory.data<uint8_t>(tensors.output_buffer, tensors.output_offset);
  Pair pair{};
  pair.sizes = tensors.sizes, pair.lhs_strides = tensors.input_strides;
  pair.output_strides = tensors.output_strides;
  const int shift = step.upper != 0 ? 8 : 0, flip = step.upper != 0 ? 128 : 0;
  each_run(pair, part, [&](int64_t from, int64_t, int64_t to, int64_t, int64_t count) {
    const int16_t* __restrict codes = input + from;
    uint8_t* __restrict bytes = output + to;
    for (int64_t i = 0; i < count; ++i) {
      bytes[i] = static_cast<uint8_t>((static_cast<uint16_t>(codes[i]) >> shift) ^ flip);
    }
  });
}

// The end of a layer, a run of at most kRun channels at a time.
class Finisher {
 public:
  Finisher(const Finish& step, const Memory& memory)
      : step_(step),
        rule_(step.rescale),
        curve_(step.activation, memory),
        bias_(memory.constant<int32_t>(step.bias)),
        factor_(memory.constant<float>(rule_.factor)),
        negative_(memory.constant<float>(step.activation.negative)),
        is_curve_(step.activation.kind == Activation::kCurve),
        least_(static_cast<float>(is_curve_ ? INT16_MIN : rule_.low - rule_.zero_point)),
        most_(static_cast<float>(is_curve_ ? INT16_MAX : rule_.high - rule_.zero_point)),
        zero_(static_cast<int32_t>(rule_.zero_point)) {}

  // int32 words of codes, in words[0 … count − 1].
  void take(const Memory& memory, const int32_t* lhs, const int32_t* rhs, int64_t channel, int64_t count,
            int32_t* words) const {
    if (rule_.kind != Rescale::kFloat) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t acc = step_.weight * lhs[i] + rhs[i] + (bias_ == nullptr ? 0 : bias_[channel + i]);
        words[i] = static_cast<int32_t>(finished(step_, memory, acc, channel + i));
      }
      return;
    }
    alignas(64) double acc[kRun];
    sums(lhs, rhs, channel, count, acc);
    alignas(64) float values[kRun] = {};
    if (step_.activation.kind == Activation::kTwoSided) {
      const float *above = factor_ + channel, *below = negative_ + channel;
      for (int64_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(acc[i]) * (acc[i] < 0 ? below[i] : above[i]);
      }
    } else {
      const float* above = factor_ + channel;
      for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(acc[i]) * above[i];
    }
    for (int64_t i = 0; i < count; ++i) {
      float value = values[i];
      value = value > least_ ? value : least_;
      value = value < most_ ? value : most_;
      words[i] = static_cast<int32_t>(std::nearbyint(value)) + zero_;
    }
    if (is_curve_) through_curve(words);
  }

 private:
  void sums(const int32_t* __restrict lhs, const int32_t* __restrict rhs, int64_t channel, int64_t count,
            double* __restrict acc) const {
    if (bias_ == nullptr) {
      for (int64_t i = 0; i < count; ++i) acc[i] = rhs[i];
      return;
    }
    const int32_t* __restrict bias = bias_ + channel;
    for (int64_t i = 0; i < count; ++i) {
      acc[i] =
          256.0 * static_cast<double>(lhs[i]) + static_cast<double>(rhs[i]) + static_cast<double>(bias[i]);
    }
  }

  // Steps become codes; all of kRun words, of which some may stand for nothing.
  void through_curve(int32_t* words) const {
    using L = Lanes<32>;
    alignas(64) int16_t steps[kRun];
    for (int64_t i = 0; i < kRun; ++i) steps[i] = static_cast<int16_t>(words[i]);
    for (int64_t i = 0; i < kRun; i += 32) {
      L::Ints first = L::load(steps + i), second = L::load(steps + i + 16);
      if (curve_.whole) {
        CurveWords<L, true>(curve_).values(first, second);
      } else {
        CurveWords<L, false>(curve_).values(first, second);
      }
      L::store(steps + i, ended(first));
      L::store(steps + i + 16, ended(second));
    }
    for (int64_t i = 0; i < kRun; ++i) words[i] = steps[i];
  }
  Lanes<32>::Ints ended(Lanes<32>::Ints y) const {
    using L = Lanes<32>;
    if (step_.output_size == 1) {
      y = L::template right16<Activation::kFractionBits>(y);
    } else {  // 4·(y − 2^13), saturated
      y = L::subtract16(y, L::set16(1 << 13));
      y = L::add16(y, y);
      y = L::add16(y, y);
    }
    const auto low = L::set16(static_cast<int32_t>(rule_.low)),
               high = L::set16(static_cast<int32_t>(rule_.high));
    return L::smaller16(L::larger16(y, low), high);
  }

  const Finish& step_;
  const Rescale& rule_;
  CurveTable curve_;
  const int32_t* bias_;
  const float *factor_, *negative_;
  bool is_curve_;
  float least_, most_;
  int32_t zero_;
};

template <class Code>
void put_words(const int32_t* __restrict words, Code* __restrict codes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) codes[i] = static_cast<Code>(words[i]);
}

void finish(const Finish& step, const Memory& memory, Part part) {
  const Pair& pair = step.pair;
  constexpr int kLast = kAxes - 1;
  const bool dense =
      pair.lhs_strides[kLast] == 1 && pair.rhs_strides[kLast] == 1 && pair.output_strides[kLast] == 1;
  if (!dense || step.rescale.kind == Rescale::kNone) return reference_finish(step, memory, part);
  const int32_t* left = memory.data<int32_t>(pair.lhs_buffer, pair.lhs_offset);
  const int32_t* right = memory.data<int32_t>(pair.rhs_buffer, pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(pair.output_buffer, pair.output_offset);
  const Finisher finisher(step, memory);
  each_run(pair, part, [&](int64_t lhs, int64_t rhs, int64_t to, int64_t channel, int64_t count) {
    for (int64_t i = 0; i < count; i += kRun) {
      const int64_t some = std::min(kRun, count - i);
      alignas(64) int32_t words[kRun] = {};
      finisher.take(memory, left + lhs + i, right + rhs + i, channel + i, some, words);
      if (step.output_size == 1) {
        put_words(words, output + to + i, some);
      } else {
        put_words(words, reinterpret_cast<int16_t*>(output) + to + i, some);
      }
    }
  });
}

void fill_wide(KernelTable& table) {
  set_kernel<Plane, plane>(table);
  set_kernel<Finish, finish>(table);
}

}  // namespace
}  // namespace calib8::engine
