// How a session wants its plans to run: `threads` and `isa`.
#pragma once

#include <string>

#include "plugin_api.h"

namespace calib8::provider {

constexpr const char* kName = "Calib8ExecutionProvider";

struct RunOptions {
  int threads = 0;         // 1 … 256; 0: as many as processors may be used
  std::string isa;         // empty: the library's choice
  std::string model_path;  // of a model that was loaded from memory; empty: not said
};

// The entries of a session's options that begin with the provider's name. Throws Fault for one that there is
// not, and for a value that is none.
RunOptions options_of(const ort::PluginApi& api, const ort::Options* options);

}  // namespace calib8::provider
