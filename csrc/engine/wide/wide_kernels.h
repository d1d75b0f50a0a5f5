// Planes of 16-bit codes and the ends of their layers: loops over runs of elements that every instruction
// set's compiler turns into vectors.
//
// A sum of 41 bits is exact in float64, and float64 → float32 is its one rounding. Everything here has
// internal linkage: each instruction set includes this file and compiles its own.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>

#include "../curve_lanes.h"
#include "../reference/reference.h"
#include "wide_depthwise.h"
#include "wide_rows.h"

namespace calib8::engine {
namespace {  // NOLINT: internal linkage is the point

constexpr int64_t kRun = 32;  // elements that are taken together

// Calls take(lhs, rhs, output, index along the last axis, count) for runs of a share that lie side by side.
template <class Take>
void each_run(const Pair& pair, Part part, const Take& take) {
  constexpr int kLast = kAxes - 1;
  const int64_t inner = pair.sizes[kLast];
  int64_t count = 1;
  for (const int64_t size : pair.sizes) count *= size;
  const Range mine = share(part, count, kRun);
  Axes at{};
  int64_t lhs = 0, rhs = 0, output = 0, index = mine.begin % inner;
  for (int64_t axis = kLast - 1, rest = mine.begin / inner; axis >= 0; --axis) {
    at[axis] = rest % pair.sizes[axis], rest /= pair.sizes[axis];
    lhs += at[axis] * pair.lhs_strides[axis], rhs += at[axis] * pair.rhs_strides[axis];
    output += at[axis] * pair.output_strides[axis];
  }
  for (int64_t left = mine.end - mine.begin; left > 0; index = 0) {
    const int64_t run = std::min(inner - index, left);
    take(lhs + index, rhs + index, output + index, index, run);
    left -= run;
    for (int axis = kLast - 1; axis >= 0; --axis) {
      lhs += pair.lhs_strides[axis], rhs += pair.rhs_strides[axis], output += pair.output_strides[axis];
      if (++at[axis] < pair.sizes[axis]) break;
      lhs -= at[axis] * pair.lhs_strides[axis], rhs -= at[axis] * pair.rhs_strides[axis];
      output -= at[axis] * pair.output_strides[axis];
      at[axis] = 0;
    }
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

// Eight sums as float32; `bias` is null where lhs is nothing but rhs once more.
inline __m256 eight_sums(const int32_t* lhs, const int32_t* rhs, const int32_t* bias) {
  const auto ints = [](const int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  };
  if (bias == nullptr) return _mm256_cvtepi32_ps(ints(rhs));
#if defined(__AVX512F__)
  const __m512d high = _mm512_cvtepi32_pd(ints(lhs)), low = _mm512_cvtepi32_pd(ints(rhs));
  const __m512d sum = _mm512_fmadd_pd(high, _mm512_set1_pd(256.0), low);
  return _mm512_cvtpd_ps(_mm512_add_pd(sum, _mm512_cvtepi32_pd(ints(bias))));
#else
  const auto four = [&](int half) {
    const auto doubles = [&](const int32_t* from) {
      const __m256i all = ints(from);
      return _mm256_cvtepi32_pd(half == 0 ? _mm256_castsi256_si128(all) : _mm256_extracti128_si256(all, 1));
    };
    const __m256d sum = _mm256_fmadd_pd(doubles(lhs), _mm256_set1_pd(256.0), doubles(rhs));
    return _mm256_cvtpd_ps(_mm256_add_pd(sum, doubles(bias)));
  };
  return _mm256_set_m128(four(1), four(0));
#endif
}

// Constants per channel, one after the other. Where pixels follow each other, they are repeated until they
// have a period of whole runs, and then once more.
class Parameters {
 public:
  Parameters(const Finish& step, const Memory& memory, bool repeated)
      : bias(memory.constant<int32_t>(step.bias)),
        factor(memory.constant<float>(step.rescale.factor)),
        negative(memory.constant<float>(step.activation.negative)) {
    if (!repeated) return;
    const int64_t channels = step.pair.sizes[kAxes - 1];
    period = period_of(channels);
    bias = filled(bias, channels, biases_), factor = filled(factor, channels, factors_);
    negative = filled(negative, channels, negatives_);
  }
  static int64_t period_of(int64_t channels) { return channels * (kRun / std::gcd(channels, kRun)); }

  static constexpr int64_t kMostPeriod = 1024;
  const int32_t* bias;  // null for none
  const float *factor, *negative;
  int64_t period = INT64_MAX;

 private:
  template <class T>
  const T* filled(const T* from, int64_t channels, T* to) const {
    if (from == nullptr) return nullptr;
    for (int64_t i = 0; i < period + kRun; i += channels) {
      const int64_t some = std::min(channels, period + kRun - i);
      std::memcpy(to + i, from, static_cast<size_t>(some) * sizeof *to);
    }
    return to;
  }
  int32_t biases_[kMostPeriod + kRun];
  float factors_[kMostPeriod + kRun], negatives_[kMostPeriod + kRun];
};

// The end of a layer with float32 factors, kRun channels at a time.
class Finisher {
  using L = Lanes<32>;

 public:
  Finisher(const Finish& step, const Memory& memory, bool repeated)
      : rule_(step.rescale),
        curve_(step.activation, memory),
        parameters_(step, memory, repeated),
        is_curve_(step.activation.kind == Activation::kCurve),
        is_two_sided_(step.activation.kind == Activation::kTwoSided),
        is_wide_(step.output_size == 2),
        least_(L::all(static_cast<float>(is_curve_ ? INT16_MIN : rule_.low - rule_.zero_point))),
        most_(L::all(static_cast<float>(is_curve_ ? INT16_MAX : rule_.high - rule_.zero_point))),
        zero_(L::all(static_cast<int32_t>(rule_.zero_point))) {}

  // The codes of `count` channels from `channel` on.
  void take(const int32_t* lhs, const int32_t* rhs, int64_t channel, int64_t count, uint8_t* codes) const {
    const int64_t at = channel % parameters_.period;
    const int32_t* bias = parameters_.bias == nullptr ? nullptr : parameters_.bias + at;
    const float* factor = parameters_.factor + at;
    const float* negative = is_two_sided_ ? parameters_.negative + at : factor;
    if (count == kRun) return put<true>(lhs, rhs, bias, factor, negative, codes, kRun);
    alignas(32) int32_t sums[3][kRun] = {};
    alignas(32) float factors[2][kRun] = {};
    const size_t bytes = static_cast<size_t>(count) * 4;
    std::memcpy(sums[0], lhs, bytes);
    std::memcpy(sums[1], rhs, bytes);
    if (bias != nullptr) std::memcpy(sums[2], bias, bytes);
    std::memcpy(factors[0], factor, bytes);
    std::memcpy(factors[1], negative, bytes);
    put<false>(sums[0], sums[1], bias == nullptr ? nullptr : sums[2], factors[0], factors[1], codes, count);
  }

 private:
  template <bool whole>
  void put(const int32_t* lhs, const int32_t* rhs, const int32_t* bias, const float* factor,
           const float* negative, uint8_t* codes, int64_t count) const {
    L::Ints numbers[4];
    for (int i = 0; i < 4; ++i) {
      const int at = 8 * i;
      const L::Floats sum = eight_sums(lhs + at, rhs + at, bias == nullptr ? nullptr : bias + at);
      L::Floats by = _mm256_loadu_ps(factor + at);
      if (is_two_sided_) by = _mm256_blendv_ps(by, _mm256_loadu_ps(negative + at), sum);
      const L::Floats steps = L::smaller(L::larger(L::multiply(sum, by), least_), most_);
      numbers[i] = L::add32(L::rounded(steps), zero_);
    }
    L::Ints words[2] = {in_order(L::pack32(numbers[0], numbers[1])),
                        in_order(L::pack32(numbers[2], numbers[3]))};
    if (is_curve_) through_curve(words);
    alignas(32) uint8_t both[2 * kRun];
    if constexpr (whole) {
      if (is_wide_) {
        L::store(codes, words[0]);
        L::store(codes + kRun, words[1]);
      } else {
        L::store(codes, in_order(L::pack16(words[0], words[1])));
      }
      return;
    }
    if (is_wide_) {
      L::store(both, words[0]);
      L::store(both + kRun, words[1]);
    } else {
      L::store(both, in_order(L::pack16(words[0], words[1])));
    }
    std::memcpy(codes, both, static_cast<size_t>(is_wide_ ? 2 * count : count));
  }
  static L::Ints in_order(L::Ints packed) { return _mm256_permute4x64_epi64(packed, 0xD8); }

  void through_curve(L::Ints (&words)[2]) const {
    if (curve_.whole) {
      CurveWords<L, true>(curve_).values(words[0], words[1]);
    } else {
      CurveWords<L, false>(curve_).values(words[0], words[1]);
    }
    const auto low = L::set16(static_cast<int32_t>(rule_.low));
    const auto high = L::set16(static_cast<int32_t>(rule_.high));
    for (L::Ints& y : words) {
      if (is_wide_) {  // 4·(y − 2^13), saturated
        y = L::subtract16(y, L::set16(1 << 13));
        y = L::add16(y, y);
        y = L::add16(y, y);
      } else {
        y = CurveWords<L, false>::code_of(y);
      }
      y = L::smaller16(L::larger16(y, low), high);
    }
  }

  const Rescale& rule_;
  CurveTable curve_;
  Parameters parameters_;
  bool is_curve_, is_two_sided_, is_wide_;
  L::Floats least_, most_;
  L::Ints zero_;
};

// Whether the channels of a pixel lie right behind those of the one before it, in all tensors.
bool pixels_follow(const Pair& pair) {
  const int64_t channels = pair.sizes[kAxes - 1];
  return pair.lhs_strides[kAxes - 2] == channels && pair.rhs_strides[kAxes - 2] == channels &&
         pair.output_strides[kAxes - 2] == channels;
}
Pair with_long_rows(Pair pair) {
  pair.sizes[kAxes - 1] *= pair.sizes[kAxes - 2];
  pair.sizes[kAxes - 2] = 1;
  return pair;
}

// acc itself: it fits into 32 bits, so sums that wrap yield it.
void finish_as_sums(const Finish& step, const Memory& memory, Part part) {
  const Pair& pair = step.pair;
  const uint32_t* left = memory.data<uint32_t>(pair.lhs_buffer, pair.lhs_offset);
  const uint32_t* right = memory.data<uint32_t>(pair.rhs_buffer, pair.rhs_offset);
  const uint32_t* bias = memory.constant<uint32_t>(step.bias);
  uint32_t* output = memory.data<uint32_t>(pair.output_buffer, pair.output_offset);
  const auto weight = static_cast<uint32_t>(step.weight);
  each_run(pair, part, [&](int64_t lhs, int64_t rhs, int64_t to, int64_t channel, int64_t count) {
    for (int64_t i = 0; i < count; ++i) output[to + i] = weight * left[lhs + i] + right[rhs + i];
    if (bias == nullptr) return;
    for (int64_t i = 0; i < count; ++i) output[to + i] += bias[channel + i];
  });
}

void finish(const Finish& step, const Memory& memory, Part part) {
  const Pair& pair = step.pair;
  constexpr int kLast = kAxes - 1;
  const bool dense =
      pair.lhs_strides[kLast] == 1 && pair.rhs_strides[kLast] == 1 && pair.output_strides[kLast] == 1;
  if (dense && step.rescale.kind == Rescale::kNone) return finish_as_sums(step, memory, part);
  if (!dense || step.rescale.kind != Rescale::kFloat) return reference_finish(step, memory, part);
  const int32_t* left = memory.data<int32_t>(pair.lhs_buffer, pair.lhs_offset);
  const int32_t* right = memory.data<int32_t>(pair.rhs_buffer, pair.rhs_offset);
  uint8_t* output = memory.data<uint8_t>(pair.output_buffer, pair.output_offset);
  const bool repeated =
      Parameters::period_of(pair.sizes[kLast]) <= Parameters::kMostPeriod && pixels_follow(pair);
  const Finisher finisher(step, memory, repeated);
  each_run(repeated ? with_long_rows(pair) : pair, part,
           [&](int64_t lhs, int64_t rhs, int64_t to, int64_t channel, int64_t count) {
             for (int64_t i = 0; i < count; i += kRun) {
               finisher.take(left + lhs + i, right + rhs + i, channel + i, std::min(kRun, count - i),
                             output + (to + i) * step.output_size);
             }
           });
}

void fill_wide(KernelTable& table) {
  set_kernel<Plane, plane>(table);
  set_kernel<Finish, finish>(table);
  set_kernel<WideDepthwise, wide_depthwise>(table);
  set_kernel<WideLength, wide_length>(table);
  set_kernel<WideLayerNorm, wide_layer_norm>(table);
}

}  // namespace
}  // namespace calib8::engine
