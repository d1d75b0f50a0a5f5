// The prefix of a plan file and its checksum. No size is believed before it is compared with that of the
// file.
#include "parts.h"

#include <cstring>
#include <string>

#include "../engine/checksum.h"
#include "plan.h"

namespace calib8::plan {
namespace {

constexpr uint8_t kMagic[8] = {0x89, 'c', '8', 0, '\r', '\n', 0x1A, '\n'};
constexpr size_t kPrefix = 64, kAlignment = 64, kChecksum = 8;
constexpr int kParts = 4;

// Little-endian, whatever the processor is.
uint64_t number_at(const uint8_t* bytes, int size) {
  uint64_t number = 0;
  for (int i = size - 1; i >= 0; --i) number = number << 8 | bytes[i];
  return number;
}

[[noreturn]] void damaged(const std::string& how) {
  throw PlanError(Fault::kBroken, "is " + how + ". Compile it again from the model");
}

}  // namespace

Parts parts_of(const uint8_t* bytes, size_t size) {
  if (size < sizeof kMagic || std::memcmp(bytes, kMagic, sizeof kMagic) != 0) {
    throw PlanError(Fault::kNotAPlan,
                    "is not a plan: it does not begin like one. Give a file that calib8 compile wrote");
  }
  const std::string length = std::to_string(size);
  if (size < kPrefix) damaged("truncated: " + length + " bytes");
  Parts parts{};
  parts.format = static_cast<uint32_t>(number_at(bytes + 8, 4));
  if (parts.format > kNewestFormat) {
    throw PlanError(Fault::kNewer, "was made by a newer calib8 (format " + std::to_string(parts.format) +
                                       ", this library reads up to " + std::to_string(kNewestFormat) +
                                       "). Take that version, or compile the model with an older one");
  }
  const uint64_t total = number_at(bytes + 48, 8);
  if (size < total) damaged("truncated: " + length + " of " + std::to_string(total) + " bytes");
  size_t place = kPrefix;
  Bytes* const all[kParts] = {&parts.header, &parts.numbers, &parts.models, &parts.constants};
  for (int i = 0; i < kParts; ++i) {
    const uint64_t stated = number_at(bytes + 16 + 8 * i, 8);
    if (stated > size - place)
      damaged("damaged: a part of " + std::to_string(stated) + " in " + length + " bytes");
    *all[i] = {bytes + place, static_cast<size_t>(stated)};
    place += (all[i]->size + kAlignment - 1) / kAlignment * kAlignment;
    if (place > size) damaged("damaged: its parts are longer than its " + length + " bytes");
  }
  if (parts.format < 1 || total != size || size - place != kChecksum) {
    damaged("damaged: it states format " + std::to_string(parts.format) + " and " + std::to_string(total) +
            " of " + length + " bytes");
  }
  engine::Checksum sum;
  sum.add(bytes, size - kChecksum);
  if (sum.value() != number_at(bytes + size - kChecksum, kChecksum)) {
    damaged("damaged: its checksum does not match its bytes");
  }
  return parts;
}

}  // namespace calib8::plan
