// Whether sums of two products, stored code · weight, fit into int16 whatever the codes are.
#pragma once

#include <cstdint>

#include "steps.h"

namespace calib8::engine {

// True where of every two weights that lie side by side in a four, those above zero sum to at most 128 and
// those below to at least −128: 255 · 128 < 2^15. So it is for all weights of 7 bits, −64 … 63.
// The step has passed check_step.
bool pair_sums_fit(const Conv& step, const uint8_t* constants);

}  // namespace calib8::engine
