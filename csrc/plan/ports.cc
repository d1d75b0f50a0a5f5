// Types, shapes and scales of the arrays of the caller, and what a state begins with.
#include "ports.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "../engine/limits.h"

namespace calib8::plan {
namespace {

constexpr int64_t kMostElements = (int64_t{1} << 31) - 1;
constexpr size_t kMostAxes = 32;

const ElementType kTypes[] = {
    {"bool", 1},   {"int8", 1},  {"uint8", 1},  {"int16", 2},   {"uint16", 2},  {"int32", 4},
    {"uint32", 4}, {"int64", 8}, {"uint64", 8}, {"float16", 2}, {"float32", 4}, {"float64", 8},
};

// Least and largest code of a type that may hold codes or sums; false for others.
bool code_range(const ElementType& type, int64_t& low, int64_t& high) {
  const std::string name = type.name;
  if (name == "uint8") return low = 0, high = 255, true;
  if (name == "int8") return low = -128, high = 127, true;
  if (name == "int16") return low = -32768, high = 32767, true;
  return name == "int32" ? low = high = 0, true : false;  // sums have no zero point
}

std::vector<float> scales_of(const Json& port) {
  std::vector<float> scales;
  const Json* list = port.find("scales");
  if (list == nullptr) return scales;
  for (const Json& one : list->list()) {
    const double real = one.real();
    const auto scale = static_cast<float>(real);
    require(std::isfinite(scale) && scale > 0 && static_cast<double>(scale) == real, "a scale that is none");
    scales.push_back(scale);
  }
  return scales;
}

void check_scales(const Port& port) {
  int64_t low = 0, high = 0;
  const int64_t last = port.shape.empty() ? 1 : port.shape.back();
  const auto count = static_cast<int64_t>(port.scales.size());
  if (count == 0) {
    require(port.zero_point == 0, "a zero point without a scale of " + port.name);
    return;
  }
  require(code_range(*port.type, low, high), "scales of " + port.name + ", which is " + port.type->name);
  require(count == 1 || count == last, std::to_string(count) + " scales of " + port.name);
  require(port.zero_point >= low && port.zero_point <= high,
          "a zero point of " + port.name + " that is no code");
}

Port port_of(const Json& json) {
  Port port;
  port.name = json.at("name").text();
  require(!port.name.empty(), "a port without a name");
  port.type = element_type(json.at("dtype").text());
  require(port.type != nullptr, "type '" + json.at("dtype").text().substr(0, 60) + "' of " + port.name);
  int64_t elements = 1;
  for (const Json& one : json.at("shape").list()) {
    const int64_t size = one.whole();
    require(size >= 1 && size <= kMostElements / elements, "the shape of " + port.name);
    elements *= size;
    port.shape.push_back(size);
  }
  require(port.shape.size() <= kMostAxes, "the shape of " + port.name);
  port.bytes = elements * port.type->bytes;
  port.scales = scales_of(json);
  if (const Json* zero_point = json.find("zero_point")) port.zero_point = zero_point->whole();
  check_scales(port);
  return port;
}

int digit_of(char one) {
  if (one >= '0' && one <= '9') return one - '0';
  if (one >= 'a' && one <= 'f') return one - 'a' + 10;
  return one >= 'A' && one <= 'F' ? one - 'A' + 10 : -1;
}

std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  require(text.size() % 2 == 0, "half a byte of a state");
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]), low = digit_of(text[i + 1]);
    require(high >= 0 && low >= 0, "a state that is no hexadecimal number");
    bytes.push_back(static_cast<uint8_t>(high << 4 | low));
  }
  return bytes;
}

template <class Element>
std::vector<uint8_t> filled(const Port& port, Element value) {
  std::vector<uint8_t> bytes(static_cast<size_t>(port.bytes));
  for (size_t i = 0; i < bytes.size(); i += sizeof value) std::memcpy(bytes.data() + i, &value, sizeof value);
  return bytes;
}

// Every element is `fill`; of bool whether it is not 0.
std::vector<uint8_t> filled_with(const Port& port, int64_t fill) {
  const std::string type = port.type->name;
  if (type == "bool") return filled<uint8_t>(port, fill != 0);
  if (type == "float32") return filled(port, static_cast<float>(fill));
  if (type == "float64") return filled(port, static_cast<double>(fill));
  require(type != "float16" || fill == 0, "a state of float16 that does not begin as 0");
  const int bits = static_cast<int>(8 * port.type->bytes);
  const bool is_signed = type[0] == 'i' || type == "float16";
  const bool fits = is_signed ? bits > 16 || (fill >= -(1 << (bits - 1)) && fill < 1 << (bits - 1))
                              : fill >= 0 && (bits > 16 || fill < 1 << bits);
  require(fits, "a state that begins as " + std::to_string(fill));
  if (bits == 8) return filled(port, static_cast<uint8_t>(fill));
  if (bits == 16) return filled(port, static_cast<uint16_t>(fill));
  return bits == 32 ? filled(port, static_cast<uint32_t>(fill)) : filled(port, static_cast<uint64_t>(fill));
}

// The place of a port by its name, which no other one may have.
size_t place_of(const std::string& name, const std::vector<Port>& ports) {
  size_t found = ports.size();
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name != name) continue;
    require(found == ports.size(), "a state of two ports named " + name);
    found = i;
  }
  require(found < ports.size(), "a state of '" + name.substr(0, 60) + "', which there is not");
  return found;
}

State state_of(const Json& json, const std::vector<Port>& inputs, const std::vector<Port>& outputs) {
  State state;
  state.input = place_of(json.at("input").text(), inputs);
  state.output = place_of(json.at("output").text(), outputs);
  const Port &read = inputs[state.input], &written = outputs[state.output];
  require(read.type == written.type && read.shape == written.shape,
          "a state of " + read.name + " and " + written.name);
  const int64_t fill = json.at("fill").whole();
  require(fill >= -(1 << 15) && fill < 1 << 15, "a state that begins as " + std::to_string(fill));
  engine::check_memory(2 * read.bytes);  // what a stream keeps of it
  const std::string& hex = json.at("initial").text();
  state.initial = hex.empty() ? filled_with(read, fill) : from_hex(hex);
  require(static_cast<int64_t>(state.initial.size()) == read.bytes,
          std::to_string(state.initial.size()) + " bytes of the state " + read.name);
  return state;
}

}  // namespace

void require(bool holds, const std::string& what) {
  if (!holds) throw std::invalid_argument(what);
}

std::string printable(std::string text) {
  for (char& one : text) {
    if (static_cast<unsigned char>(one) < ' ' || one == '\x7f') one = '?';
  }
  return text;
}

const ElementType* element_type(const std::string& name) {
  for (const ElementType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

std::vector<Port> ports_of(const Json& list) {
  std::vector<Port> ports;
  for (const Json& one : list.list()) ports.push_back(port_of(one));
  return ports;
}

std::vector<State> states_of(const Json* list, const std::vector<Port>& inputs,
                             const std::vector<Port>& outputs) {
  std::vector<State> states;
  if (list == nullptr) return states;
  std::vector<bool> read(inputs.size()), written(outputs.size());
  for (const Json& one : list->list()) {
    states.push_back(state_of(one, inputs, outputs));
    const State& last = states.back();
    require(!read[last.input] && !written[last.output], "a state twice");
    read[last.input] = written[last.output] = true;
  }
  return states;
}

}  // namespace calib8::plan
