// Opens the plan of a node and runs it on the arrays of ONNX Runtime, where they lie.
#include "plan_node.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "fault.h"

namespace calib8::provider {
namespace {

constexpr size_t kUnused = static_cast<size_t>(-1);
constexpr size_t kAlignment = 64;               // of a plan in memory
constexpr size_t kLargePage = size_t{2} << 20;  // larger plans begin at such a one, where there are any

// What ONNX calls the types of include/calib8.h, in their order from CALIB8_BOOL.
constexpr int kOnnxTypes[] = {9, 3, 2, 5, 4, 6, 12, 7, 13, 10, 1, 11};

int onnx_type(calib8_type type) { return kOnnxTypes[type - CALIB8_BOOL]; }

std::string shape_text(const int64_t* sizes, size_t rank) {
  std::string text = "[";
  for (size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return text + "]";
}

std::vector<int64_t> shape_of(const ort::PluginApi& api, const ort::Value* value) {
  ort::ShapeInfo* info = nullptr;
  check(api, api.shape_info(value, &info));
  size_t rank = 0;
  ort::Status* status = api.rank(info, &rank);
  std::vector<int64_t> shape(rank);
  if (status == nullptr && rank > 0) status = api.shape(info, shape.data(), rank);
  api.release(info);
  check(api, status);
  return shape;
}

ort::Status* make_state(ort::NodeCompute* node, ort::ComputeContext*, void** state) {
  *state = node;  // a plan keeps nothing from run to run
  return nullptr;
}

void drop_state(ort::NodeCompute*, void*) {}

ort::Status* run_plan(ort::NodeCompute* node, void*, ort::KernelContext* context) {
  const auto& plan = *static_cast<const PlanNode*>(node);
  return guarded(plan.api(), [&] { plan.run(context); });
}

// Constants are read from end to end in every run: with large pages there are fewer addresses to look up.
void* memory_for_plan(size_t size) {
  const size_t alignment = size < kLargePage ? kAlignment : kLargePage;
  const size_t whole = (size + alignment - 1) / alignment * alignment;
  void* const bytes = std::aligned_alloc(alignment, whole);
  if (bytes == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  if (alignment == kLargePage) (void)madvise(bytes, whole, MADV_HUGEPAGE);  // a wish: failing changes nothing
#endif
  return bytes;
}

}  // namespace

void PlanNode::Freer::operator()(void* bytes) const { std::free(bytes); }

PlanNode::PlanNode(const ort::PluginApi& api, ContextNode node, const std::vector<Value>& fused_inputs,
                   const std::vector<Value>& fused_outputs, const std::string& folder,
                   const RunOptions& options)
    : ort::NodeCompute{ort::kPluginVersion, make_state, run_plan, drop_state},
      api_(api),
      node_(std::move(node)) {
  open(folder, options);
  inputs_ = ports_of(node_.inputs, fused_inputs, true);
  outputs_ = ports_of(node_.outputs, fused_outputs, false);
  if (node_.free_batch) check_batch();
}

void PlanNode::refuse(int code, const std::string& what) const {
  throw Fault(code, node_.name + ": " + what);
}

// A model may name a file beside it, and no other one.
std::string PlanNode::file_in(const std::string& folder) const {
  const std::string& file = node_.content;
  if (file == ".." || file.find_first_of(std::string("/\\\0", 3)) != file.npos) {
    refuse(ort::kInvalidGraph, "ep_cache_context is not the name of a file beside the model");
  }
  if (folder.empty()) {
    refuse(ort::kNoFile, "its plan lies in the file '" + file +
                             "' beside the model, which was loaded from memory: set the session option "
                             "ep.context_file_path to the path of the model");
  }
  return folder + "/" + file;
}

void PlanNode::open(const std::string& folder, const RunOptions& options) {
  calib8_options wanted = CALIB8_OPTIONS;
  wanted.threads = options.threads;
  wanted.isa = options.isa.empty() ? nullptr : options.isa.c_str();
  calib8_model* model = nullptr;
  calib8_error error;
  if (node_.embedded) {
    const size_t size = node_.content.size();
    bytes_.reset(memory_for_plan(size));
    std::memcpy(bytes_.get(), node_.content.data(), size);
    wanted.in_place = 1;
    (void)calib8_open_memory(bytes_.get(), size, &wanted, &model, &error);
  } else {
    (void)calib8_open_file(file_in(folder).c_str(), &wanted, &model, &error);
  }
  node_.content = std::string();
  model_.reset(model);
  if (model == nullptr) {
    const bool argument = error.code == CALIB8_BAD_ARGUMENT || error.code == CALIB8_NO_ISA;
    const int code = argument                         ? ort::kInvalidArgument
                     : error.code == CALIB8_NO_FILE   ? ort::kNoFile
                     : error.code == CALIB8_NO_MEMORY ? ort::kFailed
                                                      : ort::kInvalidGraph;
    refuse(code, std::string(node_.embedded ? "its plan: " : "") + error.text);
  }
  if (calib8_has_state(model) != 0) {
    refuse(ort::kInvalidGraph,
           "its plan carries a state; export the model with calib8 export --to epcontext, "
           "which makes inputs and outputs of states");
  }
}

std::vector<PlanNode::Port> PlanNode::ports_of(const std::vector<Value>& own, const std::vector<Value>& fused,
                                               bool inputs) const {
  const size_t count = inputs ? calib8_input_count(model_.get()) : calib8_output_count(model_.get());
  const char* const what = inputs ? " inputs" : " outputs";
  if (own.size() != count) {
    refuse(ort::kInvalidGraph,
           "has " + std::to_string(own.size()) + what + ", its plan has " + std::to_string(count));
  }
  std::vector<Port> ports;
  for (size_t i = 0; i < count; ++i) {
    const calib8_tensor* tensor = inputs ? calib8_input(model_.get(), i) : calib8_output(model_.get(), i);
    size_t place = kUnused;
    for (size_t k = 0; k < fused.size() && place == kUnused; ++k) {
      if (!own[i].name.empty() && fused[k].name == own[i].name) place = k;
    }
    if (inputs && place == kUnused) {
      refuse(ort::kInvalidGraph, "nothing feeds the input '" + std::string(tensor->name) + "' of its plan");
    }
    if (place != kUnused) check_type(own[i], *tensor);
    ports.push_back({tensor, place});
  }
  return ports;
}

void PlanNode::check_type(const Value& value, const calib8_tensor& tensor) const {
  if (value.type == onnx_type(tensor.type)) return;
  refuse(ort::kInvalidGraph, "'" + value.name + "' has another type than '" + tensor.name +
                                 "' of its plan, " + calib8_type_name(tensor.type));
}

void PlanNode::check_batch() const {
  for (const auto* ports : {&inputs_, &outputs_}) {
    for (const Port& port : *ports) {
      if (port.tensor->rank > 0 && port.tensor->shape[0] == 1) continue;
      refuse(ort::kInvalidGraph, "is said to take any number of samples, and '" +
                                     std::string(port.tensor->name) + "' of its plan is not that of one");
    }
  }
}

// How many samples an array holds. Throws Fault where the shape does not fit.
int64_t PlanNode::samples_of(const Port& port, const std::vector<int64_t>& shape) const {
  const calib8_tensor& tensor = *port.tensor;
  const auto rank = static_cast<size_t>(tensor.rank);
  const size_t first = node_.free_batch ? 1 : 0;
  const bool fits = shape.size() == rank && std::equal(shape.begin() + static_cast<int64_t>(first),
                                                       shape.end(), tensor.shape + first);
  if (fits) return node_.free_batch ? shape[0] : 1;
  refuse(ort::kInvalidArgument, "input '" + std::string(tensor.name) + "' has the shape " +
                                    shape_text(shape.data(), shape.size()) + ", its plan takes " +
                                    shape_text(tensor.shape, rank) +
                                    (node_.free_batch ? " with any number in place of the first" : ""));
}

int64_t PlanNode::take_inputs(ort::KernelContext* context, std::vector<calib8_in>& arrays) const {
  int64_t samples = 1;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const ort::Value* value = nullptr;
    void* data = nullptr;
    check(api_, api_.input(context, inputs_[i].place, &value));
    if (value == nullptr) refuse(ort::kInvalidArgument, "an input is missing");
    const int64_t found = samples_of(inputs_[i], shape_of(api_, value));
    if (i > 0 && found != samples) {
      refuse(ort::kInvalidArgument,
             "its inputs hold " + std::to_string(samples) + " and " + std::to_string(found) + " samples");
    }
    samples = found;
    check(api_, api_.data(const_cast<ort::Value*>(value), &data));
    arrays[i] = {data, inputs_[i].tensor->bytes};
  }
  return samples;
}

void PlanNode::run(ort::KernelContext* context) const {
  std::vector<calib8_in> inputs(inputs_.size());
  std::vector<calib8_out> outputs(outputs_.size());
  std::vector<std::unique_ptr<void, Freer>> unused;
  const int64_t samples = take_inputs(context, inputs);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const calib8_tensor& tensor = *outputs_[i].tensor;
    outputs[i] = {nullptr, tensor.bytes};
    if (outputs_[i].place == kUnused) {
      unused.emplace_back(std::malloc(tensor.bytes));
      if ((outputs[i].data = unused.back().get()) == nullptr) throw std::bad_alloc();
      continue;
    }
    std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
    if (node_.free_batch) shape[0] = samples;
    ort::Value* value = nullptr;
    check(api_, api_.output(context, outputs_[i].place, shape.data(), shape.size(), &value));
    check(api_, api_.data(value, &outputs[i].data));
  }
  calib8_error error;
  for (int64_t done = 0; done < samples; ++done) {
    if (calib8_run(model_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), &error) !=
        CALIB8_OK) {
      refuse(ort::kFailed, error.text);
    }
    for (calib8_in& array : inputs) array.data = static_cast<const char*>(array.data) + array.bytes;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs_[i].place != kUnused)
        outputs[i].data = static_cast<char*>(outputs[i].data) + outputs[i].bytes;
    }
  }
}

}  // namespace calib8::provider
