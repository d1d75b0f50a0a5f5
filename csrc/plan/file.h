// The bytes of a plan: a file mapped into memory, or a copy at an aligned place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace calib8::plan {

// There is no such file, or it cannot be read.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Content {
 public:
  // Nothing is read yet but what lies where; the file must not be changed in place. Throws FileError, also
  // for a folder or a pipe, which would be waited for.
  static Content mapped(const char* path);
  static Content copied(const void* bytes, size_t size);
  // The bytes themselves; throws std::invalid_argument unless they are aligned to 64 bytes.
  static Content borrowed(const void* bytes, size_t size);

  const uint8_t* data() const { return data_.get(); }
  size_t size() const { return size_; }

 private:
  Content(std::shared_ptr<const uint8_t> data, size_t size) : data_(std::move(data)), size_(size) {}

  std::shared_ptr<const uint8_t> data_;
  size_t size_;
};

}  // namespace calib8::plan
