// Reads the options of a session: ONNX Runtime keeps them as texts, those of a provider behind
// `ep.NAME.` with the provider's name in small letters.
#include "options.h"

#include <cstring>

#include "../include/calib8.h"
#include "fault.h"

namespace calib8::provider {
namespace {

constexpr const char* kPrefix = "ep.calib8executionprovider.";
constexpr const char* kModelPath = "ep.context_file_path";  // ONNX Runtime's own

int threads_of(const std::string& text) {
  const bool digits = !text.empty() && text.size() <= 3 && text.find_first_not_of("0123456789") == text.npos;
  const int threads = digits ? std::stoi(text) : -1;
  if (threads < 0 || threads > 256) {
    throw Fault(ort::kInvalidArgument,
                "option threads='" + text + "': give 1 … 256, or 0 for as many as processors may be used");
  }
  return threads;
}

std::string isa_of(const std::string& text) {
  std::string known;
  for (size_t i = 0; const char* name = calib8_available_isa(i); ++i) {
    if (text == name) return text;
    known += (i == 0 ? "" : ", ") + std::string(name);
  }
  throw Fault(ort::kInvalidArgument, "option isa='" + text + "': this machine has " + known);
}

void take(RunOptions& found, const std::string& name, const std::string& value) {
  if (name == "threads") {
    found.threads = threads_of(value);
  } else if (name == "isa") {
    found.isa = isa_of(value);
  } else {
    throw Fault(ort::kInvalidArgument, "option '" + name + "': there are threads and isa");
  }
}

// Gives back what ONNX Runtime lent.
class Entries {
 public:
  Entries(const ort::PluginApi& api, const ort::Options* options) : api_(api) {
    check(api, api.entries(options, &pairs_));
  }
  ~Entries() { api_.release(pairs_); }
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;
  const ort::Pairs* get() const { return pairs_; }

 private:
  const ort::PluginApi& api_;
  ort::Pairs* pairs_ = nullptr;
};

}  // namespace

RunOptions options_of(const ort::PluginApi& api, const ort::Options* options) {
  const Entries entries(api, options);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api.pairs(entries.get(), &keys, &values, &count);
  RunOptions found;
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(keys[i], kModelPath) == 0) {
      found.model_path = values[i];
    } else if (std::strncmp(keys[i], kPrefix, std::strlen(kPrefix)) == 0) {
      take(found, keys[i] + std::strlen(kPrefix), values[i]);
    }
  }
  return found;
}

}  // namespace calib8::provider
