// Reads nodes of a graph through ONNX Runtime's C interface.
#include "context_node.h"

#include "fault.h"

namespace calib8::provider {
namespace {

constexpr const char* kSource = "calib8";
constexpr const char* kFreeBatch = "free batch";  // what `notes` says of a plan of one sample

// Null where there is none.
const ort::Attribute* attribute_of(const ort::PluginApi& api, const ort::Node* node, const char* name,
                                   int wanted_kind) {
  const ort::Attribute* attribute = nullptr;
  if (ort::Status* status = api.attribute(node, name, &attribute)) {
    api.release(status);
    return nullptr;
  }
  if (attribute == nullptr) return nullptr;
  int kind = 0;
  check(api, api.kind(attribute, &kind));
  return kind == wanted_kind ? attribute : nullptr;
}

int64_t whole_number(const ort::PluginApi& api, const ort::Node* node, const char* name, int64_t otherwise) {
  const ort::Attribute* attribute = attribute_of(api, node, name, ort::kIntAttribute);
  if (attribute == nullptr) return otherwise;
  int64_t value = 0;
  size_t size = 0;
  check(api, api.read(attribute, ort::kIntAttribute, &value, sizeof value, &size));
  return value;
}

// Empty where there is none.
std::string text(const ort::PluginApi& api, const ort::Node* node, const char* name) {
  const ort::Attribute* attribute = attribute_of(api, node, name, ort::kTextAttribute);
  if (attribute == nullptr) return {};
  size_t size = 0;
  if (ort::Status* too_few = api.read(attribute, ort::kTextAttribute, nullptr, 0, &size)) {
    api.release(too_few);
  }
  std::string value(size, '\0');
  check(api, api.read(attribute, ort::kTextAttribute, value.data(), value.size(), &size));
  return value;
}

Value value_of(const ort::PluginApi& api, const ort::ValueInfo* info) {
  Value value;
  if (info == nullptr) return value;
  const char* name = nullptr;
  check(api, api.name(info, &name));
  value.name = name;
  const ort::TypeInfo* type = nullptr;
  const ort::ShapeInfo* tensor = nullptr;
  if (ort::Status* untyped = api.type(info, &type)) {
    api.release(untyped);
    return value;
  }
  if (type == nullptr) return value;
  check(api, api.tensor_type(type, &tensor));
  if (tensor != nullptr) check(api, api.element_type(tensor, &value.type));
  return value;
}

std::vector<Value> values_of(const ort::PluginApi& api, const std::vector<const ort::ValueInfo*>& infos) {
  std::vector<Value> values;
  for (const ort::ValueInfo* info : infos) values.push_back(value_of(api, info));
  return values;
}

}  // namespace

std::string op_of(const ort::PluginApi& api, const ort::Node* node) {
  const char* found = nullptr;
  check(api, api.op_type(node, &found));
  return found == nullptr ? "" : found;
}

std::string domain_of(const ort::PluginApi& api, const ort::Node* node) {
  const char* found = nullptr;
  check(api, api.domain(node, &found));
  return found == nullptr ? "" : found;
}

std::string name_of(const ort::PluginApi& api, const ort::Node* node) {
  const char* found = nullptr;
  check(api, api.name(node, &found));
  if (found != nullptr && *found != '\0') return "node '" + std::string(found) + "'";
  const std::vector<Value> outputs = outputs_of(api, node);
  return "the node of '" + (outputs.empty() ? std::string() : outputs[0].name) + "'";
}

std::vector<Value> inputs_of(const ort::PluginApi& api, const ort::Node* node) {
  size_t count = 0;
  check(api, api.input_count(node, &count));
  std::vector<const ort::ValueInfo*> infos(count);
  check(api, api.inputs(node, infos.data(), count));
  return values_of(api, infos);
}

std::vector<Value> outputs_of(const ort::PluginApi& api, const ort::Node* node) {
  size_t count = 0;
  check(api, api.output_count(node, &count));
  std::vector<const ort::ValueInfo*> infos(count);
  check(api, api.outputs(node, infos.data(), count));
  return values_of(api, infos);
}

std::vector<const ort::Node*> nodes_of(const ort::PluginApi& api, const ort::Graph* graph) {
  size_t count = 0;
  check(api, api.node_count(graph, &count));
  std::vector<const ort::Node*> nodes(count);
  check(api, api.nodes(graph, nodes.data(), count));
  return nodes;
}

bool holds_plan(const ort::PluginApi& api, const ort::Node* node) {
  return op_of(api, node) == "EPContext" && domain_of(api, node) == "com.microsoft" &&
         text(api, node, "source") == kSource;
}

ContextNode read_context(const ort::PluginApi& api, const ort::Node* node) {
  ContextNode found;
  found.name = name_of(api, node);
  const auto refuse = [&](const std::string& what) {
    throw Fault(ort::kInvalidGraph, found.name + ": " + what + "; export the model again");
  };
  found.inputs = inputs_of(api, node);
  found.outputs = outputs_of(api, node);
  if (whole_number(api, node, "main_context", 1) != 1) refuse("its plan is said to be in another node");
  const int64_t mode = whole_number(api, node, "embed_mode", 1);
  if (mode != 0 && mode != 1) refuse("embed_mode is " + std::to_string(mode) + ", not 0 or 1");
  found.embedded = mode == 1;
  found.free_batch = text(api, node, "notes") == kFreeBatch;
  found.content = text(api, node, "ep_cache_context");
  if (found.content.empty()) refuse("ep_cache_context is missing or empty");
  return found;
}

}  // namespace calib8::provider
