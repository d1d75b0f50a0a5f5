// Maps files, and copies bytes to where a plan may lie.
#include "file.h"

#include <cstring>
#include <new>

#include "../platform.h"

namespace calib8::plan {
namespace {

constexpr size_t kAlignment = 64;

}  // namespace

Content Content::mapped(const char* path) {
  platform::MappedFile file = platform::map_file(path);
  if (!file.problem.empty()) {
    throw FileError(std::string(path) + ": cannot be read (" + file.problem +
                    "). Give the path of a compiled plan");
  }
  if (!file.regular) {
    throw FileError(std::string(path) + ": is no regular file. Give the path of a compiled plan");
  }
  return Content(std::move(file.bytes), file.size);
}

Content Content::copied(const void* bytes, size_t size) {
  if (size > SIZE_MAX - kAlignment) throw std::bad_alloc();
  void* const memory = platform::aligned_memory(kAlignment, (size + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  std::shared_ptr<const uint8_t> owner(static_cast<const uint8_t*>(memory), [](const uint8_t* copy) {
    platform::free_aligned(const_cast<uint8_t*>(copy));
  });
  if (size != 0) std::memcpy(memory, bytes, size);
  return Content(std::move(owner), size);
}

Content Content::borrowed(const void* bytes, size_t size) {
  if (reinterpret_cast<uintptr_t>(bytes) % kAlignment != 0) {
    throw std::invalid_argument("bytes that are used in place are not aligned to 64 bytes");
  }
  return Content(std::shared_ptr<const uint8_t>(static_cast<const uint8_t*>(bytes), [](const uint8_t*) {}),
                 size);
}

}  // namespace calib8::plan
