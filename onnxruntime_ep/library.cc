// The two functions that ONNX Runtime looks for in the library of a provider.
#include <cstdlib>
#include <string>

#include "fault.h"
#include "session_factory.h"

namespace {

using calib8::ort::Base;
using calib8::ort::PluginApi;
using calib8::ort::Status;

constexpr uint32_t kOldest = 17;  // whose table says how a status is made

// 23 of "1.23.0". Asking an ONNX Runtime for what it does not know yet would make it write to the terminal.
unsigned long minor_version(const char* version) {
  const std::string text = version;
  const size_t dot = text.find('.');
  return dot == text.npos ? 0 : std::strtoul(text.c_str() + dot + 1, nullptr, 10);
}

Status* refuse(const Base* base, const std::string& text) {
  const void* const* const table = base->get_api(kOldest);
  return table == nullptr ? nullptr : PluginApi(table).create_status(calib8::ort::kFailed, text.c_str());
}

}  // namespace

#define CALIB8_EXPORT extern "C" __attribute__((visibility("default")))

CALIB8_EXPORT Status* CreateEpFactories(const char* registered_name, const Base* base,
                                        const calib8::ort::Logger* logger, calib8::ort::Factory** factories,
                                        size_t most, size_t* count);
CALIB8_EXPORT Status* ReleaseEpFactory(calib8::ort::Factory* factory);

Status* CreateEpFactories(const char*, const Base* base, const calib8::ort::Logger*,
                          calib8::ort::Factory** factories, size_t most, size_t* count) {
  *count = 0;
  const std::string version = base->version();
  const bool known =
      version.rfind("1.", 0) != 0 || minor_version(version.c_str()) >= calib8::ort::kPluginVersion;
  const void* const* const table = known ? base->get_api(calib8::ort::kPluginVersion) : nullptr;
  if (table == nullptr) return refuse(base, "calib8: needs ONNX Runtime 1.23 or newer, this is " + version);
  const PluginApi api(table);
  return calib8::provider::guarded(api, [&] {
    if (most == 0) throw calib8::provider::Fault(calib8::ort::kFailed, "there is no room for a provider");
    factories[0] = calib8::provider::SessionFactory::make(api);
    *count = 1;
  });
}

Status* ReleaseEpFactory(calib8::ort::Factory* factory) {
  static_cast<calib8::provider::SessionFactory*>(factory)->release();
  return nullptr;
}
