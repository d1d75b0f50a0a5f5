// Plans with inputs and the outputs that NumPy gave for them, as tests/engine/bits.py records them.
//
// A file is a row of int64 numbers. Per plan: number of steps; per step its kind (bytes) and its fields
// (count, then one number each); constants (bytes); bytes of the arena; number of inputs, of outputs;
// their contents (bytes each). Bytes are a count and then the bytes, filled up to a multiple of 8.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../csrc/engine/engine.h"

namespace recorded {

using Bytes = std::vector<uint8_t>;

struct Free {
  void operator()(uint8_t* memory) const { std::free(memory); }
};

struct Plan {
  calib8::engine::Description description;
  std::unique_ptr<uint8_t, Free> constants;
  std::vector<Bytes> inputs, outputs;
};

class Reader {
 public:
  explicit Reader(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (file == nullptr) throw std::runtime_error(std::string("cannot open ") + path);
    int64_t block[4096];
    for (size_t count = 1; (count = std::fread(block, 8, 4096, file)) > 0;) {
      numbers_.insert(numbers_.end(), block, block + count);
    }
    std::fclose(file);
  }

  bool at_end() const { return next_ == numbers_.size(); }

  Plan plan() {
    Plan plan;
    for (int64_t steps = number(); steps > 0; --steps) {
      const Bytes kind = bytes();
      std::vector<int64_t> fields(static_cast<size_t>(number()));
      for (int64_t& field : fields) field = number();
      plan.description.steps.push_back({std::string(kind.begin(), kind.end()), fields});
    }
    take_constants(plan);
    plan.description.arena_bytes = number();
    const int64_t inputs = number(), outputs = number();
    for (int64_t port = 0; port < inputs + outputs; ++port) {
      (port < inputs ? plan.inputs : plan.outputs).push_back(bytes());
      const Bytes& last = port < inputs ? plan.inputs.back() : plan.outputs.back();
      plan.description.port_bytes.push_back(static_cast<int64_t>(last.size()));
    }
    return plan;
  }

 private:
  int64_t number() {
    if (at_end()) throw std::runtime_error("the file of recorded plans ends too early");
    return numbers_[next_++];
  }

  Bytes bytes() {
    Bytes result(static_cast<size_t>(number()));
    const size_t words = (result.size() + 7) / 8;
    if (words > numbers_.size() - next_)
      throw std::runtime_error("the file of recorded plans ends too early");
    if (!result.empty()) std::memcpy(result.data(), numbers_.data() + next_, result.size());
    next_ += words;
    return result;
  }

  void take_constants(Plan& plan) {
    const Bytes content = bytes();
    const size_t size = (content.size() + 63) / 64 * 64;
    plan.constants.reset(static_cast<uint8_t*>(std::aligned_alloc(64, size)));
    std::memcpy(plan.constants.get(), content.data(), content.size());
    plan.description.constants = plan.constants.get();
    plan.description.constant_bytes = static_cast<int64_t>(content.size());
  }

  std::vector<int64_t> numbers_;
  size_t next_ = 0;
};

}  // namespace recorded
