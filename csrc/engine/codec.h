// Steps as rows of int64: how plans store them, and what their fields are called.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "steps.h"

namespace calib8::engine {

// Names of the fields of a step in order, nested ones with a point ("input.rows"), floats with a '~' in
// front.
template <class Step>
std::vector<std::string> field_names();

// A struct for those who make steps: name and type of its fields in order ("int", "float", "axes", or the
// name of another struct), and what its enumeration calls its values.
struct Schema {
  std::vector<std::pair<std::string, std::string>> fields;
  std::map<std::string, int64_t> kinds;
};
using Schemas = std::map<std::string, Schema>;

// Adds a step and the structs inside it.
template <class Step>
void add_schema(Schemas& schemas);

// Fills a step from a row. False when the row has another length.
template <class Step>
bool decode(const int64_t* row, size_t length, Step& step);

namespace codec {

struct Names {
  std::string prefix;
  std::vector<std::string>& list;

  void operator()(const char* name, int64_t&) { list.push_back(prefix + name); }
  void operator()(const char* name, double&) { list.push_back("~" + prefix + name); }
  void operator()(const char* name, Axes& axes) {
    for (size_t i = 0; i < axes.size(); ++i) list.push_back(prefix + name + "." + std::to_string(i));
  }
  template <class Nested>
  auto operator()(const char* name, Nested& nested) -> decltype(nested.fields(*this)) {
    nested.fields(Names{prefix + name + ".", list});
  }
};

struct Members {
  Schemas& schemas;
  Schema& schema;

  void operator()(const char* name, int64_t&) { schema.fields.emplace_back(name, "int"); }
  void operator()(const char* name, double&) { schema.fields.emplace_back(name, "float"); }
  void operator()(const char* name, Axes&) { schema.fields.emplace_back(name, "axes"); }
  template <class Nested>
  auto operator()(const char* name, Nested&) -> decltype(Nested::kName, void()) {
    schema.fields.emplace_back(name, Nested::kName);
    add_schema<Nested>(schemas);
  }
};

struct Kinds {
  std::map<std::string, int64_t>& values;

  void operator()(const char* name, int64_t value) { values[name] = value; }
};
// Of a struct that has an enumeration, and of others.
template <class Struct>
auto add_kinds(Schema& schema, int) -> decltype(Struct::kinds(Kinds{schema.kinds})) {
  Struct::kinds(Kinds{schema.kinds});
}
template <class Struct>
void add_kinds(Schema&, long) {}

struct Reader {
  const int64_t*& next;
  const int64_t* end;
  bool& complete;

  void operator()(const char*, int64_t& value) {
    if (next == end) {
      complete = false;
      return;
    }
    value = *next++;
  }
  void operator()(const char* name, double& value) {
    int64_t bits = 0;
    (*this)(name, bits);
    std::memcpy(&value, &bits, sizeof value);
  }
  void operator()(const char* name, Axes& axes) {
    for (int64_t& value : axes) (*this)(name, value);
  }
  template <class Nested>
  auto operator()(const char*, Nested& nested) -> decltype(nested.fields(*this)) {
    nested.fields(*this);
  }
};

}  // namespace codec

template <class Step>
std::vector<std::string> field_names() {
  std::vector<std::string> list;
  Step step{};
  step.fields(codec::Names{"", list});
  return list;
}

template <class Step>
void add_schema(Schemas& schemas) {
  Schema schema;
  Step step{};
  step.fields(codec::Members{schemas, schema});
  codec::add_kinds<Step>(schema, 0);
  schemas[Step::kName] = std::move(schema);
}

template <class Step>
bool decode(const int64_t* row, size_t length, Step& step) {
  const int64_t* next = row;
  bool complete = true;
  step.fields(codec::Reader{next, row + length, complete});
  return complete && next == row + length;
}

}  // namespace calib8::engine
