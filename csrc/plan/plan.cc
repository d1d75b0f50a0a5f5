// The header of a plan and the rows of its steps.
#include "plan.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "json.h"
#include "parts.h"
#include "ports.h"

namespace calib8::plan {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;  // of an arena or of weights; more is a mistake
constexpr size_t kAlignment = 64;
constexpr int64_t kActivation[] = {0, -1, -1, -1, 0, 0, 0, 0};  // of layers in format 1: none
const char* const kProfiles[] = {"onnx", "tflite", "single", "tengine"};
const char* const kIsas[] = {"",         "amx",     "avx512vnni", "avxvnni",  "avx2",
                             "neoni8mm", "neondot", "neon",       "reference"};
const char* const kKeys[] = {"arena_bytes", "floats",  "inputs", "isa",         "name",
                             "outputs",     "profile", "steps",  "weight_bytes"};
constexpr const char* kStates = "states";

template <size_t count>
void require_one_of(const std::string& text, const char* const (&known)[count], const char* what) {
  const bool found = std::any_of(known, known + count, [&](const char* one) { return text == one; });
  require(found, std::string(what) + " '" + text.substr(0, 60) + "'");
}

void check_keys(const Json& header) {
  const std::set<std::string> wanted(std::begin(kKeys), std::end(kKeys));
  size_t found = 0;
  for (const std::string& name : header.names()) {
    if (name == kStates) continue;
    require(wanted.count(name) == 1, "a key '" + name.substr(0, 60) + "'");
    ++found;
  }
  require(found == wanted.size(), "fewer keys than a plan has");
}

int64_t memory_of(const Json& header, const char* key) {
  const int64_t bytes = header.at(key).whole();
  require(bytes >= 0 && bytes <= kMostBytes, std::to_string(bytes) + " bytes of memory");
  return bytes;
}

// Numbers of the steps one after the other, little-endian.
class Numbers {
 public:
  explicit Numbers(Bytes bytes) : next_(bytes.data), left_(static_cast<int64_t>(bytes.size / 8)) {
    require(bytes.size % 8 == 0, "half a number");
  }
  int64_t left() const { return left_; }
  std::vector<int64_t> take(int64_t count) {
    require(count >= 0 && count <= left_, "a step of " + std::to_string(count) + " numbers");
    std::vector<int64_t> row(static_cast<size_t>(count));
    for (int64_t& number : row) number = one();
    left_ -= count;
    return row;
  }

 private:
  int64_t one() {
    uint64_t bits = 0;
    for (int i = 7; i >= 0; --i) bits = bits << 8 | next_[i];
    next_ += 8;
    int64_t number = 0;
    std::memcpy(&number, &bits, sizeof number);
    return number;
  }

  const uint8_t* next_;
  int64_t left_;
};

std::vector<engine::Description::Row> rows_of(const Json& steps, const Parts& parts) {
  std::vector<engine::Description::Row> rows;
  Numbers numbers(parts.numbers);
  for (const Json& step : steps.list()) {
    require(step.list().size() == 4, "a step that is no row");
    const std::string& kind = step.list()[0].text();
    std::vector<int64_t> row = numbers.take(step.list()[1].whole());
    (void)step.list()[2].text(),
        (void)step.list()[3].whole();  // its name and its products, which need no run
    if (parts.format == 1 && (kind == "conv" || kind == "depthwise")) {
      row.insert(row.end(), std::begin(kActivation), std::end(kActivation));
    }
    rows.push_back({kind, std::move(row)});
  }
  require(numbers.left() == 0, std::to_string(numbers.left()) + " numbers behind those of the steps");
  return rows;
}

// Refuses nodes that the model leaves to ONNX Runtime, by their names.
void refuse_floats(const Json& floats) {
  constexpr size_t kShown = 8;
  std::vector<std::string> nodes;
  for (const Json& call : floats.list()) {
    for (const Json& node : call.at("nodes").list()) nodes.push_back(node.text());
  }
  if (floats.list().empty()) return;
  std::string names;
  for (size_t i = 0; i < nodes.size() && i < kShown; ++i) names += (i == 0 ? "" : ", ") + nodes[i];
  if (nodes.size() > kShown) names += " and " + std::to_string(nodes.size() - kShown) + " more";
  throw PlanError(Fault::kFloatParts, "has nodes that have no integer form and need ONNX Runtime: " + names +
                                          ". Run it with calib8 in Python, or quantize these nodes");
}

void check_constants(Bytes constants) {
  const auto is_zero = [](uint8_t byte) { return byte == 0; };
  const uint8_t* end = constants.data + constants.size;
  require(constants.size >= kAlignment && std::all_of(end - kAlignment, end, is_zero),
          "constants without their end");
}

Plan plan_of(const Parts& parts) {
  const Json header = Json::parse(parts.header.data, parts.header.size);
  check_keys(header);
  Plan plan;
  plan.name = header.at("name").text();
  plan.profile = header.at("profile").text();
  require_one_of(plan.profile, kProfiles, "profile");
  require_one_of(header.at("isa").text(), kIsas, "instruction set");
  plan.description.arena_bytes = memory_of(header, "arena_bytes");
  (void)memory_of(header, "weight_bytes");
  check_constants(parts.constants);
  plan.description.constants = parts.constants.data;
  plan.description.constant_bytes = static_cast<int64_t>(parts.constants.size);
  plan.inputs = ports_of(header.at("inputs"));
  plan.outputs = ports_of(header.at("outputs"));
  plan.states = states_of(header.find(kStates), plan.inputs, plan.outputs);
  plan.description.steps = rows_of(header.at("steps"), parts);
  for (const std::vector<Port>* ports : {&plan.inputs, &plan.outputs}) {
    for (const Port& port : *ports) plan.description.port_bytes.push_back(port.bytes);
  }
  refuse_floats(header.at("floats"));
  return plan;
}

}  // namespace

Plan read_plan(const uint8_t* bytes, size_t size) {
  const Parts parts = parts_of(bytes, size);
  try {
    return plan_of(parts);
  } catch (const std::invalid_argument& error) {
    throw PlanError(Fault::kBroken, std::string("holds a header that makes no plan (") + error.what() +
                                        "). Compile it again from the model");
  }
}

}  // namespace calib8::plan
