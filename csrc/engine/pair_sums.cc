// Whether sums of two products fit into int16.
#include "pair_sums.h"

#include <algorithm>

namespace calib8::engine {
namespace {

constexpr int kMost = 128;        // 255 · 128 = 32640
constexpr int64_t kBlock = 4096;  // weights between two looks whether to go on

bool fits(const int8_t* weights, int64_t count) {
  int most = 0, least = 0;
  for (int64_t i = 0; i < count; i += 2) {
    const int first = weights[i], second = weights[i + 1];
    most = std::max(most, std::max(first, 0) + std::max(second, 0));
    least = std::min(least, std::min(first, 0) + std::min(second, 0));
  }
  return most <= kMost && least >= -kMost;
}

}  // namespace

bool pair_sums_fit(const Conv& step, const uint8_t* constants) {
  const auto* weights = reinterpret_cast<const int8_t*>(constants + step.weights);
  const int64_t bytes = step.groups * step.weight_bytes;
  for (int64_t begin = 0; begin < bytes; begin += kBlock) {
    if (!fits(weights + begin, std::min(kBlock, bytes - begin))) return false;
  }
  return true;
}

}  // namespace calib8::engine
