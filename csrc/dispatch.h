// Which instruction sets can count and multiply here, and the one that does.
#pragma once

#include <string>
#include <vector>

#include "cpu.h"
#include "histogram.h"
#include "second_order.h"

namespace calib8 {

struct Isa {
  const char* name;  // "avx512", "avx2" or "reference"
  Features needs;    // of the processor
  void (*count)(const float* values, int64_t n, Counter& counter, Extrema& sample);
  void (*measure)(const float* values, int64_t n, Counter& counter, Extrema& sample);
  void (*subtract_product)(Matrix c, ConstMatrix a, ConstMatrix b, int64_t rows, int64_t columns,
                           int64_t inner);
};

// Those that a processor with these features can run, fastest first; "reference" is always the last.
std::vector<const Isa*> available_isas(Features features);

// The one that CALIB8_ISA=name chooses there. Throws std::invalid_argument as `isa_by_name` does.
const Isa& chosen_isa(const std::string& name, Features features);

// The one with this name; for a name of the integer engine ("amx", "avx512vnni", "avxvnni", "neondot" …) the
// one that counts beside it. Throws std::invalid_argument when it is unknown or not available.
const Isa& isa_by_name(const std::string& name);

// The fastest one, or the one that the environment variable CALIB8_ISA names (read once, at first use; empty
// counts as not set). Throws std::invalid_argument as `isa_by_name` does.
const Isa& active_isa();

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
