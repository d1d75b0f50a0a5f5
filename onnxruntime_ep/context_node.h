// A node `EPContext` of a graph: what it says of its plan, and the names of what it reads and writes.
#pragma once

#include <string>
#include <vector>

#include "plugin_api.h"

namespace calib8::provider {

// An input or output of a node.
struct Value {
  std::string name;  // empty: left out
  int type = 0;      // of its elements as ONNX numbers them; 0: no tensor, or nobody knows
};

struct ContextNode {
  std::string name;  // of the node, or what it is where it has none; for messages
  std::vector<Value> inputs, outputs;
  bool embedded = true;     // `content` is the plan, not the name of its file
  bool free_batch = false;  // the plan is of one sample, and may be run for each
  std::string content;
};

// Whether a node is EPContext with a plan of calib8 in it.
bool holds_plan(const ort::PluginApi& api, const ort::Node* node);

// Throws Fault where something is missing.
ContextNode read_context(const ort::PluginApi& api, const ort::Node* node);

std::vector<Value> inputs_of(const ort::PluginApi& api, const ort::Node* node);
std::vector<Value> outputs_of(const ort::PluginApi& api, const ort::Node* node);

std::string name_of(const ort::PluginApi& api, const ort::Node* node);
std::string op_of(const ort::PluginApi& api, const ort::Node* node);
std::string domain_of(const ort::PluginApi& api, const ort::Node* node);
std::vector<const ort::Node*> nodes_of(const ort::PluginApi& api, const ort::Graph* graph);

}  // namespace calib8::provider
