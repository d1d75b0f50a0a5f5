// Makes the SplitRows of a layer.
#pragma once

#include <memory>

#include "split_rows.h"
#include "steps.h"

namespace calib8::engine {

// Null for a layer without fixed-point factors. The step has passed check_step.
std::shared_ptr<const SplitRows> split_rows_of(const Conv& step, const uint8_t* constants);

}  // namespace calib8::engine
