// What makes a provider for every session that asks for one.
#pragma once

#include <memory>

#include "plugin_api.h"

namespace calib8::provider {

// Lives until it is released and the last session that has a provider of it is gone: ONNX Runtime's own
// bookkeeping lets a library be unregistered while sessions use it.
class SessionFactory : public ort::Factory, public std::enable_shared_from_this<SessionFactory> {
 public:
  static SessionFactory* make(const ort::PluginApi& api);
  // ONNX Runtime needs it no more.
  void release() { itself_.reset(); }
  const ort::PluginApi& api() const { return api_; }

 private:
  explicit SessionFactory(const ort::PluginApi& api);

  const ort::PluginApi api_;
  std::shared_ptr<SessionFactory> itself_;
};

}  // namespace calib8::provider
