// The parts of a plan file: where they lie, once its checksum is right.
#pragma once

#include <cstddef>
#include <cstdint>

namespace calib8::plan {

struct Bytes {
  const uint8_t* data;
  size_t size;
};

struct Parts {
  uint32_t format;
  Bytes header, numbers, models, constants;
};

// Throws PlanError unless the prefix, all sizes and the checksum are right.
Parts parts_of(const uint8_t* bytes, size_t size);

}  // namespace calib8::plan
