// What a run finds in the arrays that it is given, and that no look at the plan can tell beforehand.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "steps.h"
#include "view.h"

namespace calib8::engine {

// A sequence is said to have a length that it does not have.
struct WrongLength {
  int64_t step, buffer;  // the number of the layer's step; where its lengths lie
  int64_t sample, length, most;
};

class LengthError : public std::runtime_error {
 public:
  explicit LengthError(const WrongLength& wrong)
      : std::runtime_error("a sequence has a length that is not in 0 … its steps"), found(wrong) {}

  const WrongLength found;
};

// Throws LengthError where a sample of a recurrent layer has a length below 0 or beyond the sequence.
inline void check_lengths(const Recurrent& layer, int64_t step, uint8_t* const* buffers) {
  if (layer.lengths_buffer < 0) return;
  const auto* lengths =
      reinterpret_cast<const int32_t*>(buffers[layer.lengths_buffer] + layer.lengths_offset);
  for (int64_t sample = 0; sample < layer.samples; ++sample) {
    if (lengths[sample] >= 0 && lengths[sample] <= layer.steps) continue;
    throw LengthError({step, layer.lengths_buffer, sample, lengths[sample], layer.steps});
  }
}

}  // namespace calib8::engine
