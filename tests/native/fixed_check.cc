// The vector forms of fixed-point factors (fixed_steps.h) against rules.h: random factors of every shift,
// sums on both sides of ties, around powers of two and at the ends of int32.
//
//   fixed_check [ROUNDS]    exit code 1 at the first difference
//
// Compiled for AVX2 as the engine's files of that set are.
#include <cstdio>
#include <cstdlib>
#include <random>

#include "../../csrc/cpu.h"
#include "../../csrc/engine/fixed_steps.h"
#include "../../csrc/engine/lanes_avx2.h"
#include "../../csrc/engine/rules.h"

namespace calib8::engine {
namespace {

using L = Lanes<32>;
constexpr int64_t kNumbers = 8;
using Eight = int32_t[kNumbers];

// Steps of a curve keep 16 bits, codes less: what is beyond must only be beyond.
struct Case {
  int64_t kind;
  SplitUse use;
  int64_t most;  // largest result that is not cut off
  Eight multiplier, shift, acc;
};

std::mt19937_64 random_bits(1);
int64_t between(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_bits);
}

int32_t some_multiplier() {
  switch (between(0, 4)) {
    case 0:
      return static_cast<int32_t>(between(1 << 10, (1 << 11) - 1) << 20);
    case 1:
      return static_cast<int32_t>((between(1 << 23, (1 << 24) - 1) << 7) + between(0, 1) * 64);
    case 2:
      return between(0, 1) == 0 ? INT32_MAX : 1 << 30;
    case 3:
      return between(0, 9) == 0 ? 0 : (1 << 30) + 1;
    default:
      return static_cast<int32_t>(between(1 << 30, INT32_MAX));
  }
}

// A sum near k − 1/2, or near a power of two.
int32_t some_sum(const Case& c, int64_t i, int64_t far) {
  const int64_t m = c.multiplier[i] == 0 ? 1 : c.multiplier[i];
  const int64_t half = (2 * between(-c.most - 3, c.most + 3) - 1) * (int64_t{1} << (30 - c.shift[i]));
  int64_t sum = between(0, 3) > 0 ? half / m : (int64_t{1} << between(0, 31)) * (between(0, 1) * 2 - 1);
  sum += between(-2, 2);
  return static_cast<int32_t>(clamped(sum, -far - 1, far));
}

Case some_case(int64_t kind, SplitUse use, int64_t least, int64_t largest, int64_t far) {
  Case c{kind, use, use == SplitUse::kSteps ? 32767 : 255, {}, {}, {}};
  for (int64_t i = 0; i < kNumbers; ++i) {
    c.multiplier[i] = some_multiplier();
    c.shift[i] = static_cast<int32_t>(between(least, largest));
    // SRDHM takes sums that fit int32 when they are shifted to the left
    const int32_t left = kind == Rescale::kDouble && c.shift[i] > 0 ? c.shift[i] : 0;
    int64_t reach = far >> left;
    if (c.shift[i] >= 0) {  // results below 2^30, as others are by themselves
      const int64_t room = (int64_t{1} << (61 - c.shift[i])) / (c.multiplier[i] == 0 ? 1 : c.multiplier[i]);
      reach = reach < room - 1 ? reach : room - 1;
    }
    c.acc[i] = some_sum(c, i, reach);
  }
  return c;
}

[[gnu::noinline]] L::Ints load(const void* numbers, int) { return L::load(numbers); }

// Results as they are packed, from twice the numbers or from themselves.
template <class Steps>
[[gnu::noinline]] void run(const Steps& steps, const Case& c, int32_t* results) {
  alignas(32) int32_t raw[kNumbers];
  L::store(raw, steps(L::load(c.acc), 0));
  for (int64_t i = 0; i < kNumbers; ++i) results[i] = Steps::kTwice ? (raw[i] + 1) >> 1 : raw[i];
}

bool same(const char* form, const Case& c, const int32_t* results) {
  for (int64_t i = 0; i < kNumbers; ++i) {
    const int64_t exact = multiply_fixed(c.kind, c.acc[i], c.multiplier[i], c.shift[i]);
    const int64_t wanted = clamped(exact, -c.most - 1, c.most);
    if (clamped(results[i], -c.most - 1, c.most) == wanted) continue;
    std::printf("%s, kind %d: %d · %d, shift %d gives %d, not %lld\n", form, static_cast<int>(c.kind),
                c.acc[i], c.multiplier[i], c.shift[i], results[i], static_cast<long long>(exact));
    return false;
  }
  return true;
}

LayerFactors factors_of(const Case& c) {
  Rescale rule{c.kind, -1, -1, 0, 0, 255};
  Activation none{};
  none.negative = none.negative_shift = -1;
  LayerFactors layer(rule, none, Memory{}, 0);
  layer.multiplier = c.multiplier, layer.shift = c.shift;
  return layer;
}

template <SplitUse use>
bool check_split(int64_t kind) {
  const bool steps = use == SplitUse::kSteps;
  const int32_t largest = between(0, 1) == 0 ? -1 : kMostSplitShift;
  const Case c = some_case(kind, use, steps ? -8 : -15, largest, INT32_MAX);
  const SplitLayer layer(factors_of(c), kNumbers, use);
  int32_t results[kNumbers];
  rounded_down([&] { run(SplitNumbers<L, 1, true, use>(layer, load), c, results); });
  return layer.fits && same(steps ? "float32, steps" : "float32, codes", c, results);
}

bool check_integers(int64_t kind) {
  const int64_t least = kind == Rescale::kDouble && between(0, 1) == 0 ? -kSafeRight : -31;
  const bool narrow = kind == Rescale::kDouble && least == -31;
  const Case c = some_case(kind, SplitUse::kSteps, least, 30, narrow ? (1 << 30) - 1 : INT32_MAX);
  FixedLayer layer;
  const bool fits = layer.set(factors_of(c), kNumbers, narrow);
  int32_t results[kNumbers];
  run(IntegerNumbers<L, 1, false>(layer, load), c, results);
  return fits && same("integers", c, results);
}

bool check(int64_t rounds) {
  for (int64_t round = 0; round < rounds; ++round) {
    for (const int64_t kind : {Rescale::kSingle, Rescale::kDouble}) {
      if (!check_split<SplitUse::kCodes>(kind) || !check_split<SplitUse::kSteps>(kind)) return false;
      if (!check_integers(kind)) return false;
    }
    if (!check_split<SplitUse::kCodes>(Rescale::kAway)) return false;
    if (!check_split<SplitUse::kSteps>(Rescale::kAway)) return false;
  }
  return true;
}

}  // namespace
}  // namespace calib8::engine

int main(int count, char** arguments) {
  const calib8::Features needs = calib8::kAvx2 | calib8::kFma;
  if ((calib8::features() & needs) != needs) return std::puts("no AVX2 here"), 0;
  const long rounds = count > 1 ? std::atol(arguments[1]) : 100000;
  if (!calib8::engine::check(rounds)) return 1;
  std::printf("%ld rounds of 48 numbers agree\n", rounds);
  return 0;
}
