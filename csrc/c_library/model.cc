// Opens plans, holds arrays of the caller against them, and runs them.
#include "model.h"

#include <stdexcept>

#include "../engine/data_fault.h"
#include "fault.h"

namespace calib8::c_library {
namespace {

constexpr struct {
  const char* name;
  calib8_type type;
} kTypes[] = {{"bool", CALIB8_BOOL},       {"int8", CALIB8_INT8},       {"uint8", CALIB8_UINT8},
              {"int16", CALIB8_INT16},     {"uint16", CALIB8_UINT16},   {"int32", CALIB8_INT32},
              {"uint32", CALIB8_UINT32},   {"int64", CALIB8_INT64},     {"uint64", CALIB8_UINT64},
              {"float16", CALIB8_FLOAT16}, {"float32", CALIB8_FLOAT32}, {"float64", CALIB8_FLOAT64}};

calib8_type type_of(const plan::ElementType& type) {
  for (const auto& known : kTypes) {
    if (std::string(known.name) == type.name) return known.type;
  }
  throw Fault(CALIB8_INTERNAL, std::string("the type ") + type.name + " has no number");
}

calib8_tensor tensor_of(const plan::Port& port) {
  calib8_tensor tensor{};
  tensor.name = port.name.c_str();
  tensor.type = type_of(*port.type);
  tensor.rank = static_cast<int32_t>(port.shape.size());
  tensor.shape = port.shape.data();
  tensor.bytes = static_cast<size_t>(port.bytes);
  tensor.scales = port.scales.empty() ? nullptr : port.scales.data();
  tensor.scale_count = port.scales.size();
  tensor.zero_point = static_cast<int32_t>(port.zero_point);
  return tensor;
}

const engine::Isa& chosen(const char* isa) {
  try {
    const engine::Isa& set = isa == nullptr ? engine::default_isa() : engine::isa_by_name(isa);
    if (isa == nullptr || std::string(isa) == set.name) return set;
    throw Fault(CALIB8_NO_ISA, "instruction set '" + std::string(isa) + "' is not in this library");
  } catch (const std::invalid_argument& error) {
    throw Fault(CALIB8_NO_ISA, error.what());
  }
}

[[noreturn]] void wrong_array(const plan::Port& port, const std::string& what) {
  throw Fault(CALIB8_WRONG_ARRAY, "the array for '" + plan::printable(port.name) + "' " + what);
}

void check_array(const plan::Port& port, const void* data, size_t bytes) {
  if (static_cast<int64_t>(bytes) != port.bytes) {
    wrong_array(port, "has " + std::to_string(bytes) + " bytes, not " + std::to_string(port.bytes));
  }
  if (data == nullptr)
    throw Fault(CALIB8_BAD_ARGUMENT, "the array for '" + plan::printable(port.name) + "' is NULL");
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(port.type->bytes) != 0) {
    wrong_array(port, "is not aligned to its elements");
  }
}

bool overlap(const void* first, size_t first_bytes, const void* second, size_t second_bytes) {
  const auto a = reinterpret_cast<uintptr_t>(first), b = reinterpret_cast<uintptr_t>(second);
  return a < b + second_bytes && b < a + first_bytes;
}

}  // namespace

Model::Model(plan::Content content, const char* isa, int threads, bool pin)
    : content_(std::move(content)),
      plan_(plan::read_plan(content_.data(), content_.size())),
      steps_(static_cast<int64_t>(plan_.description.steps.size())) {
  std::vector<bool> read(plan_.inputs.size()), written(plan_.outputs.size());
  for (const plan::State& state : plan_.states) read[state.input] = written[state.output] = true;
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i]) continue;
    input_ports_.push_back(i);
    inputs_.push_back(tensor_of(plan_.inputs[i]));
  }
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i]) continue;
    output_ports_.push_back(i);
    outputs_.push_back(tensor_of(plan_.outputs[i]));
  }
  const engine::Isa& set = chosen(isa);
  const auto refuse = [](const std::string& why) {
    throw Fault(CALIB8_BROKEN_PLAN, "cannot be run (" + why + "). Compile it again from the model");
  };
  try {
    engine_ = std::make_unique<engine::Engine>(plan_.description, set, threads, pin);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  if (static_cast<int64_t>(plan_.inputs.size()) > engine_->first_written_port()) {
    refuse("the plan is broken: a step writes into an input");
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    if (engine_->fills(plan_.inputs.size() + i)) continue;
    refuse("the plan is broken: no step fills the output " + plan_.outputs[i].name);
  }
  plan_.description.steps = {};  // decoded; the rows are not needed any more
  contexts_ = std::make_unique<engine::ContextStore>(*engine_);
}

size_t Model::run_bytes() const {
  const int64_t scratch = engine_->scratch_bytes() * engine_->threads();
  return static_cast<size_t>(plan_.description.arena_bytes + scratch);
}

void Model::run(const Arrays& arrays) const {
  if (!plan_.states.empty()) {
    throw Fault(CALIB8_NEEDS_STREAM, "the model carries a state from run to run: open a stream of it");
  }
  std::vector<uint8_t*> ports(plan_.inputs.size() + plan_.outputs.size());
  take(arrays, ports);
  engine::Borrowed borrowed(*contexts_);
  run(borrowed.context(), ports);
}

void Model::run(engine::Context& context, const std::vector<uint8_t*>& ports) const {
  try {
    engine_->run(context, 0, steps_, ports, nullptr);
  } catch (const engine::LengthError& thrown) {
    const engine::WrongLength& fault = thrown.found;
    const auto port = static_cast<size_t>(fault.buffer - engine::kFirstPort);
    const bool fed = fault.buffer >= engine::kFirstPort && port < plan_.inputs.size();
    const std::string from = fed ? "'" + plan::printable(plan_.inputs[port].name) + "'" : "its lengths";
    const std::string problem = "sample " + std::to_string(fault.sample) + " has the length " +
                                std::to_string(fault.length) + " and " + std::to_string(fault.most) +
                                " steps. Give lengths in 0 … " + std::to_string(fault.most);
    throw Fault(CALIB8_WRONG_ARRAY, from + ": " + problem);
  }
}

void Model::take(const Arrays& arrays, std::vector<uint8_t*>& ports) const {
  const auto check_count = [](size_t given, size_t wanted, const char* what) {
    if (given == wanted) return;
    throw Fault(CALIB8_BAD_ARGUMENT,
                "got " + std::to_string(given) + " arrays for " + std::to_string(wanted) + what);
  };
  check_count(arrays.input_count, inputs_.size(), " inputs");
  check_count(arrays.output_count, outputs_.size(), " outputs");
  if ((arrays.inputs == nullptr && !inputs_.empty()) || (arrays.outputs == nullptr && !outputs_.empty())) {
    throw Fault(CALIB8_BAD_ARGUMENT, "the list of arrays is NULL");
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const calib8_in& array = arrays.inputs[i];
    check_array(plan_.inputs[input_ports_[i]], array.data, array.bytes);
    ports[input_ports_[i]] = const_cast<uint8_t*>(static_cast<const uint8_t*>(array.data));
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const calib8_out& array = arrays.outputs[i];
    const plan::Port& port = plan_.outputs[output_ports_[i]];
    check_array(port, array.data, array.bytes);
    for (size_t k = 0; k < inputs_.size() + i; ++k) {
      const bool is_input = k < inputs_.size();
      const void* data = is_input ? arrays.inputs[k].data : arrays.outputs[k - inputs_.size()].data;
      const size_t bytes = is_input ? arrays.inputs[k].bytes : arrays.outputs[k - inputs_.size()].bytes;
      if (overlap(array.data, array.bytes, data, bytes))
        wrong_array(port, "lies over another array of the run");
    }
    ports[plan_.inputs.size() + output_ports_[i]] = static_cast<uint8_t*>(array.data);
  }
}

// The right to be inside of a stream, given back at the end. Who was inside when a process forked is not
// there.
class Stream::Inside {
 public:
  explicit Inside(std::atomic<int64_t>& inside) : inside_(inside) {
    int64_t found = 0;
    while (!inside_.compare_exchange_weak(found, fork_count(), std::memory_order_acquire)) {
      if (found == fork_count()) throw Fault(CALIB8_BUSY, "the stream is under way in another thread");
    }
  }
  ~Inside() { inside_.store(0, std::memory_order_release); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<int64_t>& inside_;
};

Stream::Stream(std::shared_ptr<const Model> model)
    : model_(std::move(model)),
      borrowed_(model_->contexts()),
      states_(model_->plan().states.size()),
      ports_(model_->plan().inputs.size() + model_->plan().outputs.size()) {
  begin();
}

void Stream::begin() {
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].now = model_->plan().states[i].initial;
    states_[i].next.resize(states_[i].now.size());
  }
}

void Stream::reset() {
  const Inside inside(process_inside_);
  begin();
}

void Stream::run(const Arrays& arrays) {
  const Inside inside(process_inside_);
  if (process_ != fork_count()) {
    borrowed_.renew();
    process_ = fork_count();
  }
  model_->take(arrays, ports_);
  const plan::Plan& plan = model_->plan();
  for (size_t i = 0; i < states_.size(); ++i) {
    ports_[plan.states[i].input] = states_[i].now.data();
    ports_[plan.inputs.size() + plan.states[i].output] = states_[i].next.data();
  }
  model_->run(borrowed_.context(), ports_);
  for (Carried& state : states_) state.now.swap(state.next);
}

}  // namespace calib8::c_library
