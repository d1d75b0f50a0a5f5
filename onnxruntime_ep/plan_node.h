// A node that holds a plan, ready to run: any number of threads may run it at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "../include/calib8.h"
#include "context_node.h"
#include "options.h"
#include "plugin_api.h"

namespace calib8::provider {

class PlanNode : public ort::NodeCompute {
 public:
  // `fused` has the inputs and outputs that ONNX Runtime feeds and takes: each value once, and only what is
  // used. `folder` is that of the model, empty where it has none. Throws Fault, which names the node.
  PlanNode(const ort::PluginApi& api, ContextNode node, const std::vector<Value>& fused_inputs,
           const std::vector<Value>& fused_outputs, const std::string& folder, const RunOptions& options);

  // Throws Fault.
  void run(ort::KernelContext* context) const;
  const ort::PluginApi& api() const { return api_; }

 private:
  struct Closer {
    void operator()(calib8_model* model) const { calib8_close(model); }
  };
  struct Freer {
    void operator()(void* bytes) const;
  };
  // An input or output of the plan.
  struct Port {
    const calib8_tensor* tensor;
    size_t place;  // among those of the fused node; kUnused: nobody reads it
  };

  void open(const std::string& folder, const RunOptions& options);
  std::string file_in(const std::string& folder) const;
  std::vector<Port> ports_of(const std::vector<Value>& own, const std::vector<Value>& fused,
                             bool inputs) const;
  void check_type(const Value& value, const calib8_tensor& tensor) const;
  void check_batch() const;
  int64_t samples_of(const Port& port, const std::vector<int64_t>& shape) const;
  int64_t take_inputs(ort::KernelContext* context, std::vector<calib8_in>& arrays) const;
  [[noreturn]] void refuse(int code, const std::string& what) const;

  const ort::PluginApi api_;
  ContextNode node_;
  std::unique_ptr<void, Freer> bytes_;  // of a plan that lies in the node, which the model reads in place
  std::unique_ptr<calib8_model, Closer> model_;
  std::vector<Port> inputs_, outputs_;
};

}  // namespace calib8::provider
