// Failures on their way to a status of ONNX Runtime: no exception passes through its C interface.
#pragma once

#include <stdexcept>
#include <string>

#include "plugin_api.h"

namespace calib8::provider {

// What a status says; begins with what it is about, such as a node.
class Fault : public std::runtime_error {
 public:
  Fault(int code, const std::string& text) : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Throws Fault with what a status says; nothing where it says nothing.
inline void check(const ort::PluginApi& api, ort::Status* status) {
  if (status == nullptr) return;
  const std::string text = api.message(status);
  api.release(status);
  throw Fault(ort::kFailed, text);
}

// What `work` does, with whatever it throws as a status.
template <class Work>
ort::Status* guarded(const ort::PluginApi& api, Work work) noexcept {
  try {
    work();
    return nullptr;
  } catch (const Fault& fault) {
    return api.create_status(fault.code(), (std::string("calib8: ") + fault.what()).c_str());
  } catch (const std::bad_alloc&) {
    return api.create_status(ort::kFailed, "calib8: there is not enough memory");
  } catch (const std::exception& error) {
    return api.create_status(ort::kFailed, error.what());
  } catch (...) {
    return api.create_status(ort::kFailed, "calib8: something unknown went wrong");
  }
}

}  // namespace calib8::provider
