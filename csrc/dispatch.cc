// The one table of instruction sets and the choice among them.
#include "dispatch.h"

#include <cstdlib>
#include <stdexcept>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace calib8 {
namespace {

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt"); }

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vbmi2");
}
#endif

const Isa kPriority[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, count_avx512},
    {"avx2", has_avx2, count_avx2},
#endif
    {"reference", always, count_reference},
};

// Names that the integer engine has for its sets, and those that count here then, best first. One variable
// forces both.
struct EngineName {
  const char* name;
  const char* counts[2];
};

const EngineName kEngineNames[] = {
#if defined(__x86_64__)
    {"avx512vnni", {"avx512", "avx2"}},
    {"avxvnni", {"avx2", "avx2"}},
#endif
#if defined(__aarch64__)
    {"neondot", {"reference", "reference"}},
#endif
    {"reference", {"reference", "reference"}},
};

const Isa* find(const std::string& name) {
  for (const Isa* isa : available_isas()) {
    if (name == isa->name) return isa;
  }
  return nullptr;
}

const Isa& chosen() {
  const char* name = std::getenv("CALIB8_ISA");
  return name == nullptr || *name == '\0' ? *available_isas().front() : isa_by_name(name);
}

}  // namespace

std::vector<const Isa*> available_isas() {
  std::vector<const Isa*> list;
  for (const Isa& isa : kPriority) {
    if (isa.available()) list.push_back(&isa);
  }
  return list;
}

const Isa& isa_by_name(const std::string& name) {
  if (const Isa* isa = find(name)) return *isa;
  for (const EngineName& engine : kEngineNames) {
    if (name != engine.name) continue;
    for (const char* counts : engine.counts) {
      if (const Isa* isa = find(counts)) return *isa;
    }
  }
  std::string known;
  for (const Isa* isa : available_isas()) known += (known.empty() ? "" : ", ") + std::string(isa->name);
  throw std::invalid_argument("instruction set '" + name +
                              "' is unknown or not available on this CPU, which has " + known);
}

const Isa& active_isa() {
  static const Isa& isa = chosen();
  return isa;
}

void count_values(const Isa& isa, const float* values, int64_t n, Histogram& state) {
#if defined(__x86_64__)
  constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, round to nearest, denormals kept
  const unsigned caller = _mm_getcsr();
  _mm_setcsr(kDefault);
  isa.count(values, n, state);
  _mm_setcsr(caller);
#else
  isa.count(values, n, state);
#endif
}

}  // namespace calib8
