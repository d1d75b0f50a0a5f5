// Steps as rows of int64: how plans store them, and what their fields are called.
#pragma once

#include <cstring>
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
bool decode(const int64_t* row, size_t length, Step& step) {
  const int64_t* next = row;
  bool complete = true;
  step.fields(codec::Reader{next, row + length, complete});
  return complete && next == row + length;
}

}  // namespace calib8::engine
