// Finds the nodes with plans in a graph and compiles each into one that runs its plan.
#include "session_provider.h"

#include <string>

#include "context_node.h"
#include "fault.h"
#include "plan_node.h"

namespace calib8::provider {
namespace {

constexpr const char* kWithCodes[] = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul"};

const char* name_of_provider(const ort::Provider*) { return kName; }

ort::Status* capability(ort::Provider* provider, const ort::Graph* graph, ort::Support* support) {
  auto& own = *static_cast<SessionProvider*>(provider);
  return guarded(own.api(), [&] { own.find(graph, support); });
}

ort::Status* compile(ort::Provider* provider, const ort::Graph** graphs, const ort::Node** fused,
                     size_t count, ort::NodeCompute** made, ort::Node**) {
  const auto& own = *static_cast<const SessionProvider*>(provider);
  return guarded(own.api(), [&] { own.compile(graphs, fused, count, made); });
}

void release_computes(ort::Provider*, ort::NodeCompute** nodes, size_t count) {
  for (size_t i = 0; i < count; ++i) delete static_cast<PlanNode*>(nodes[i]);
}

const char* compatibility(ort::Provider*, const ort::Graph*) { return ""; }  // the plan itself says it

ort::Provider functions() {
  ort::Provider provider = {};
  provider.version = ort::kPluginVersion;
  provider.name = name_of_provider;
  provider.capability = capability;
  provider.compile = ::calib8::provider::compile;
  provider.release_computes = release_computes;
  provider.compatibility = compatibility;
  return provider;
}

bool has_codes(const std::string& op_type) {
  for (const char* known : kWithCodes) {
    if (op_type == known) return true;
  }
  return false;
}

#if defined(_WIN32)
#error "paths are wide there, and libcalib8 opens files by narrow ones"
#endif

}  // namespace

SessionProvider::SessionProvider(const ort::PluginApi& api, RunOptions options, const ort::Logger* logger,
                                 std::shared_ptr<const SessionFactory> maker)
    : ort::Provider(functions()),
      api_(api),
      options_(std::move(options)),
      logger_(logger),
      maker_(std::move(maker)) {}

void SessionProvider::find(const ort::Graph* graph, ort::Support* support) {
  const ort::Fusion each = {ort::kPluginVersion, false};
  std::string in_codes;
  for (const ort::Node* node : nodes_of(api_, graph)) {
    if (holds_plan(api_, node)) {
      check(api_, api_.provider().fuse(support, &node, 1, &each));
    } else if (in_codes.empty() && has_codes(op_of(api_, node))) {
      in_codes = name_of(api_, node);
    }
  }
  if (!in_codes.empty()) tell_of_codes(in_codes);
}

// Once for a session: ONNX Runtime asks several times, and for every graph in a graph.
void SessionProvider::tell_of_codes(const std::string& node) {
  if (told_ || logger_ == nullptr) return;
  told_ = true;
  const std::string text =
      "calib8: " + node +
      " and others compute with codes, and are left to the other providers: this one runs the models that "
      "`calib8 export --to epcontext MODEL -o OUT.onnx` makes of them";
  if (ort::Status* status = api_.log(logger_, ort::kWarning, text.c_str(), __FILE__, __LINE__, __func__)) {
    api_.release(status);
  }
}

// Empty: the model was loaded from memory, and nobody said where it belongs.
std::string SessionProvider::folder_of(const ort::Graph* graph) const {
  const ort::PathChar* path = nullptr;
  check(api_, api_.model_path(graph, &path));
  std::string model = path == nullptr ? "" : path;
  if (model.empty()) model = options_.model_path;
  if (model.empty()) return model;
  const size_t slash = model.rfind('/');
  return slash == model.npos ? "." : model.substr(0, slash + (slash == 0));
}

void SessionProvider::compile(const ort::Graph** graphs, const ort::Node** fused, size_t count,
                              ort::NodeCompute** made) const {
  for (size_t i = 0; i < count; ++i) {
    const std::vector<const ort::Node*> nodes = nodes_of(api_, graphs[i]);
    if (nodes.size() != 1) throw Fault(ort::kInvalidGraph, "nodes were joined that are not to be");
    made[i] = new PlanNode(api_, read_context(api_, nodes[0]), inputs_of(api_, fused[i]),
                           outputs_of(api_, fused[i]), folder_of(graphs[i]), options_);
  }
}

}  // namespace calib8::provider
