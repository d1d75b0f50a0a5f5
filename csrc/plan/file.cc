// Maps files, and copies bytes to where a plan may lie.
#include "file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <system_error>

namespace calib8::plan {
namespace {

constexpr size_t kAlignment = 64;

class Descriptor {
 public:
  // A pipe is not waited for.
  explicit Descriptor(const char* path) : number_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) (void)close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

[[noreturn]] void fail(const char* path) {
  const std::string reason = std::generic_category().message(errno);
  throw FileError(std::string(path) + ": cannot be read (" + reason + "). Give the path of a compiled plan");
}

}  // namespace

Content Content::mapped(const char* path) {
  const Descriptor file(path);
  struct stat found{};
  if (file.number() < 0 || fstat(file.number(), &found) != 0) fail(path);
  if (!S_ISREG(found.st_mode)) {
    throw FileError(std::string(path) + ": is no regular file. Give the path of a compiled plan");
  }
  const auto size = static_cast<size_t>(found.st_size);
  if (size == 0) return Content(nullptr, 0);
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) fail(path);
  const auto unmap = [size](const uint8_t* bytes) { (void)munmap(const_cast<uint8_t*>(bytes), size); };
  return Content(std::shared_ptr<const uint8_t>(static_cast<const uint8_t*>(memory), unmap), size);
}

Content Content::copied(const void* bytes, size_t size) {
  if (size > SIZE_MAX - kAlignment) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(kAlignment, (size + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  std::shared_ptr<const uint8_t> owner(static_cast<const uint8_t*>(memory),
                                       [](const uint8_t* copy) { std::free(const_cast<uint8_t*>(copy)); });
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
