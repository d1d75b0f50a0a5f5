// Makes the SplitRows of a layer.
#include "split_store.h"

#include <algorithm>
#include <new>
#include <vector>

#include "../platform.h"
#include "split_factors.h"

namespace calib8::engine {
namespace {

constexpr int64_t kStrip = 16;  // channels that fit together or not at all
constexpr int kArrays = 4;      // of a side

struct Free {
  void operator()(float* memory) const { platform::free_aligned(memory); }
};
using Floats = std::unique_ptr<float, Free>;

Floats aligned_floats(int64_t count) {
  void* memory = platform::aligned_memory(64, static_cast<size_t>(count) * sizeof(float));
  if (memory == nullptr) throw std::bad_alloc();
  return Floats(static_cast<float*>(memory));
}

// The rows with the memory they lie in.
struct Stored {
  SplitRows rows{};
  Floats floats[2];
  std::vector<uint8_t> fits;
};

// Fixed-point factors of all channels, and what becomes of them.
struct Source {
  const int32_t *multiplier, *shift;
  int64_t channels, kind;
  SplitUse use;

  int32_t most() const { return use == SplitUse::kSteps ? kMostSplitShift : -1; }
};

// Fills one side; channels that do not fit are marked.
void fill(const Source& source, int side, Stored& stored) {
  const int64_t channels = source.channels;
  stored.floats[side] = aligned_floats(kArrays * channels);
  float* const first = stored.floats[side].get();
  float* const arrays[kArrays] = {first, first + channels, first + 2 * channels, first + 3 * channels};
  for (int64_t c = 0; c < channels; c += kStrip) {
    SplitFactors split;
    if (!split_factors(source.multiplier + c, source.shift + c, kStrip, source.kind, source.most(), split,
                       source.use)) {
      stored.fits[static_cast<size_t>(c / kStrip)] = 0;
    }
    const float* const made[kArrays] = {split.high, split.low, split.nudge, split.minus};
    for (int i = 0; i < kArrays; ++i) std::copy_n(made[i], kStrip, arrays[i] + c);
  }
  stored.rows.side[side] = {arrays[0], arrays[1], arrays[2], arrays[3]};
}

}  // namespace

std::shared_ptr<const SplitRows> split_rows_of(const Conv& step, const uint8_t* constants) {
  const Rescale& rule = step.rescale;
  if (!rule.fixed()) return nullptr;
  const auto array = [&](int64_t place) { return reinterpret_cast<const int32_t*>(constants + place); };
  const int64_t channels = step.groups * step.padded_outputs;
  const bool curve = step.activation.kind == Activation::kCurve;
  const SplitUse use = curve ? SplitUse::kSteps : SplitUse::kCodes;
  auto stored = std::make_shared<Stored>();
  stored->fits.assign(static_cast<size_t>(channels / kStrip), 1);
  fill({array(rule.factor), array(rule.shift), channels, rule.kind, use}, 0, *stored);
  if (step.activation.kind == Activation::kTwoSided) {
    const Activation& sides = step.activation;
    fill({array(sides.negative), array(sides.negative_shift), channels, rule.kind, use}, 1, *stored);
  }
  stored->rows.fits = stored->fits.data();
  return {stored, &stored->rows};
}

}  // namespace calib8::engine
