// The functions of a factory. None of those that ONNX Runtime calls unasked may be missing.
#include "session_factory.h"

#include "../include/calib8.h"
#include "fault.h"
#include "session_provider.h"

namespace calib8::provider {
namespace {

const ort::PluginApi& api_of(const ort::Factory* factory) {
  return static_cast<const SessionFactory*>(factory)->api();
}

// The processor itself; one is enough, all cores are in it.
ort::Status* devices(ort::Factory* factory, const ort::Device* const* found, size_t count,
                     ort::ProviderDevice** made, size_t most, size_t* made_count) {
  *made_count = 0;
  const ort::PluginApi& api = api_of(factory);
  for (size_t i = 0; i < count; ++i) {
    if (most == 0 || api.kind(found[i]) != ort::kCpu) continue;
    if (ort::Status* status = api.provider().create_device(factory, found[i], &made[0])) return status;
    *made_count = 1;
    return nullptr;
  }
  return nullptr;
}

ort::Status* create(ort::Factory* factory, const ort::Device* const*, const ort::Pairs* const*, size_t,
                    const ort::Options* options, const ort::Logger* logger, ort::Provider** made) {
  const ort::PluginApi& api = api_of(factory);
  *made = nullptr;
  return guarded(api, [&] {
    auto maker = static_cast<const SessionFactory*>(factory)->shared_from_this();
    *made = new SessionProvider(api, options_of(api, options), logger, std::move(maker));
  });
}

void release(ort::Factory*, ort::Provider* provider) { delete static_cast<SessionProvider*>(provider); }

ort::Factory functions() {
  ort::Factory factory = {};
  factory.version = ort::kPluginVersion;
  factory.name = [](const ort::Factory*) { return kName; };
  factory.vendor = [](const ort::Factory*) { return "calib8"; };
  factory.devices = devices;
  factory.create = create;
  factory.release = release;
  factory.vendor_id = [](const ort::Factory*) -> uint32_t { return 0; };  // none of PCI
  factory.release_version = [](const ort::Factory*) { return calib8_version(); };
  factory.validate = [](ort::Factory*, const ort::Device* const*, size_t, const char*,
                        int* result) -> ort::Status* {
    *result = 0;  // cannot be told from a text: a plan is held against the library when it is opened
    return nullptr;
  };
  factory.create_allocator = [](ort::Factory*, const ort::MemoryInfo*, const ort::Pairs*,
                                ort::Allocator** allocator) -> ort::Status* {
    *allocator = nullptr;  // that of the processor
    return nullptr;
  };
  factory.release_allocator = [](ort::Factory*, ort::Allocator*) {};
  factory.create_transfer = [](ort::Factory*, ort::DataTransfer** transfer) -> ort::Status* {
    *transfer = nullptr;
    return nullptr;
  };
  factory.has_streams = [](const ort::Factory*) { return false; };
  factory.create_stream = [](ort::Factory*, const ort::MemoryDevice*, const ort::Pairs*,
                             ort::SyncStream** stream) -> ort::Status* {
    *stream = nullptr;
    return nullptr;
  };
  return factory;
}

}  // namespace

SessionFactory::SessionFactory(const ort::PluginApi& api) : ort::Factory(functions()), api_(api) {}

SessionFactory* SessionFactory::make(const ort::PluginApi& api) {
  std::shared_ptr<SessionFactory> made(new SessionFactory(api));
  made->itself_ = made;
  return made.get();
}

}  // namespace calib8::provider
