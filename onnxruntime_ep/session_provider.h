// The provider in one session: which nodes it takes, and what becomes of them.
#pragma once

#include <memory>

#include "options.h"
#include "plugin_api.h"

namespace calib8::provider {

class SessionFactory;

class SessionProvider : public ort::Provider {
 public:
  SessionProvider(const ort::PluginApi& api, RunOptions options, const ort::Logger* logger,
                  std::shared_ptr<const SessionFactory> maker);

  // Takes the nodes that hold plans, each by itself.
  void find(const ort::Graph* graph, ort::Support* support);
  // Throws Fault, which names the node. What was made before stays with the caller.
  void compile(const ort::Graph** graphs, const ort::Node** fused, size_t count,
               ort::NodeCompute** made) const;
  const ort::PluginApi& api() const { return api_; }

 private:
  void tell_of_codes(const std::string& node);
  std::string folder_of(const ort::Graph* graph) const;

  const ort::PluginApi api_;
  const RunOptions options_;
  const ort::Logger* const logger_;                    // lives as long as the session
  const std::shared_ptr<const SessionFactory> maker_;  // its functions are called until this is gone
  bool told_ = false;
};

}  // namespace calib8::provider
