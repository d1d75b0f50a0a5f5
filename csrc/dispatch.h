// Which instruction sets can count and multiply here, and the one that does.
#pragma once

#include <string>
#include <vector>

#include "histogram.h"
#include "second_order.h"

namespace calib8 {

struct Isa {
  const char* name;     // "avx512", "avx2" or "reference"
  bool (*available)();  // does this CPU (and its operating system) have it?
  void (*count)(const float* values, int64_t n, Counter& counter, Extrema& sample);
  void (*measure)(const float* values, int64_t n, Counter& counter, Extrema& sample);
  void (*subtract_product)(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                           int64_t inner);
};

// Those that this CPU can run, fastest first; "reference" is always the last.
std::vector<const Isa*> available_isas();

// The one with this name; for a name of the integer engine ("avx512vnni", "avxvnni", "neondot") the one that
// counts beside it. Throws std::invalid_argument when it is unknown or not available.
const Isa& isa_by_name(const std::string& name);

// The fastest one, or the one that the environment variable CALIB8_ISA names (read once, at first use; empty
// counts as not set). Throws std::invalid_argument as `isa_by_name` does.
const Isa& active_isa();

// Architecture of this CPU, and on x86-64 the widest set that it has of those among which float inference
// chooses its kernels: "x86_64 avx512f", "x86_64 avx2", "x86_64 avx", "x86_64", "aarch64", "other". On x86-64
// CPUs of one such type ONNX Runtime computes the same bits; elsewhere it tells architectures apart, no more.
// CALIB8_ISA changes nothing of it.
std::string cpu_type();

// While it lives, the calling thread rounds to nearest and keeps denormals, whatever it did before.
class DefaultRounding {
 public:
  DefaultRounding();
  ~DefaultRounding();
  DefaultRounding(const DefaultRounding&) = delete;
  DefaultRounding& operator=(const DefaultRounding&) = delete;

 private:
  unsigned caller_;
};

}  // namespace calib8
