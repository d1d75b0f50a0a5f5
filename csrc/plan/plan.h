// A plan file as the engine wants it: read, and looked at as something that anybody may have written.
//
// The format is told in src/calib8/engine/plan_file.py, which reads and writes it in Python. Whatever is
// accepted here is accepted there.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../engine/engine.h"

namespace calib8::plan {

constexpr uint32_t kNewestFormat = 4;

// What is wrong with a file.
enum class Fault { kNotAPlan, kNewer, kBroken, kFloatParts };

// Names from a file may hold anything: without what moves a cursor.
std::string printable(std::string text);

class PlanError : public std::runtime_error {
 public:
  PlanError(Fault fault, const std::string& text) : std::runtime_error(printable(text)), fault_(fault) {}
  Fault fault() const { return fault_; }

 private:
  Fault fault_;
};

// A type of elements, by the name that NumPy has for it.
struct ElementType {
  const char* name;
  int64_t bytes;
};

// Null for a name that no input or output may have.
const ElementType* element_type(const std::string& name);

struct Port {
  std::string name;
  const ElementType* type;
  std::vector<int64_t> shape;
  std::vector<float> scales;  // of codes and sums; empty for others and in older files
  int64_t zero_point = 0;
  int64_t bytes = 0;
};

// An input that reads what an output of the run before held.
struct State {
  size_t input, output;  // the how manieth each is
  std::vector<uint8_t> initial;
};

struct Plan {
  std::string name, profile;
  engine::Description description;  // constants lie in the file's bytes
  std::vector<Port> inputs, outputs;
  std::vector<State> states;
};

// The plan in the bytes of a file, which must be aligned to 64 bytes and outlive what is made of it.
//
// Throws PlanError: it is no plan, of a newer format, damaged, or contradicts itself, or it has parts in
// float. Whether its steps stay inside their arrays the engine says.
Plan read_plan(const uint8_t* bytes, size_t size);

}  // namespace calib8::plan
