// Names of instruction sets, as the tables of the statistics and of the engine take them.
//
// CALIB8_ISA forces both, but they have different sets: a name that only the other one has stands for the
// best that runs beside it.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace calib8 {

struct IsaAlias {
  const char* name;
  const char* runs[2];  // best first
};

inline constexpr IsaAlias kIsaAliases[] = {
#if defined(__x86_64__)
    {"avx512vnni", {"avx512", "avx2"}},        {"avxvnni", {"avx2", "avx2"}},
    {"avx512", {"avx512vnni", "avx2"}},
#endif
#if defined(__aarch64__)
    {"neondot", {"reference", "reference"}},
#endif
    {"reference", {"reference", "reference"}},
};

// Those of a table that this CPU can run, in its order.
template <class Isa, size_t count>
std::vector<const Isa*> available_of(const Isa (&table)[count]) {
  std::vector<const Isa*> list;
  for (const Isa& isa : table) {
    if (isa.available()) list.push_back(&isa);
  }
  return list;
}

template <class Isa, size_t count>
const Isa* own_set(const Isa (&table)[count], const std::string& name) {
  for (const Isa& isa : table) {
    if (name == isa.name) return &isa;
  }
  return nullptr;
}

// The set with this name, or what it stands for where the table has none. Throws std::invalid_argument when
// it is unknown or not available.
template <class Isa, size_t count>
const Isa& set_named(const Isa (&table)[count], const std::string& name) {
  if (const Isa* isa = own_set(table, name)) {
    if (isa->available()) return *isa;
  } else {
    for (const IsaAlias& alias : kIsaAliases) {
      if (name != alias.name) continue;
      for (const char* runs : alias.runs) {
        const Isa* other = own_set(table, runs);
        if (other != nullptr && other->available()) return *other;
      }
    }
  }
  std::string known;
  for (const Isa* isa : available_of(table)) known += (known.empty() ? "" : ", ") + std::string(isa->name);
  throw std::invalid_argument("instruction set '" + name +
                              "' is unknown or not available on this CPU, which has " + known);
}

// The set that CALIB8_ISA names (empty counts as not set), or the first of the table that runs.
template <class Isa, size_t count>
const Isa& set_wanted(const Isa (&table)[count]) {
  const char* name = std::getenv("CALIB8_ISA");
  return name == nullptr || *name == '\0' ? *available_of(table).front() : set_named(table, name);
}

}  // namespace calib8
