// Names of instruction sets, as the tables of the statistics and of the engine take them, and what they need.
//
// CALIB8_ISA forces both, but they have different sets: a name that only the other one has stands for the
// best that runs beside it, on a processor that has what the name needs.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu.h"

namespace calib8 {

// What the statistics' sets need …
inline constexpr Features kCountAvx2 = kAvx2 | kPopcnt;
inline constexpr Features kCountAvx512 = kCountAvx2 | kAvx512f | kAvx512bw | kAvx512vbmi2;
// … and the engine's.
inline constexpr Features kEngineAvx2 = kAvx2 | kFma;
inline constexpr Features kEngineAvxVnni = kEngineAvx2 | kAvxVnni;
inline constexpr Features kEngineAvx512Vnni =
    kEngineAvx2 | kAvx512f | kAvx512bw | kAvx512dq | kAvx512vl | kAvx512vnni;
inline constexpr Features kEngineAmx = kEngineAvx512Vnni | kAmxTile | kAmxInt8;
inline constexpr Features kEngineNeon = kNeon;
inline constexpr Features kEngineNeonDot = kEngineNeon | kDotProducts;
inline constexpr Features kEngineNeonI8mm = kEngineNeonDot | kI8mm;

struct IsaAlias {
  const char* name;
  Features needs;
  const char* runs[2];  // best first
};

inline constexpr IsaAlias kIsaAliases[] = {
#if defined(__x86_64__)
    {"amx", kEngineAmx, {"avx512", "avx2"}},
    {"avx512vnni", kEngineAvx512Vnni, {"avx512", "avx2"}},
    {"avxvnni", kEngineAvxVnni, {"avx2", "avx2"}},
    {"avx512", kCountAvx512, {"avx512vnni", "avx2"}},
#endif
#if defined(__aarch64__)
    {"neoni8mm", kEngineNeonI8mm, {"reference", "reference"}},
    {"neondot", kEngineNeonDot, {"reference", "reference"}},
    {"neon", kEngineNeon, {"reference", "reference"}},
#endif
};

inline bool has_all(Features features, Features needs) { return (features & needs) == needs; }

// Those of a table that a processor with these features can run, in its order.
template <class Isa, size_t count>
std::vector<const Isa*> available_of(const Isa (&table)[count], Features features) {
  std::vector<const Isa*> list;
  for (const Isa& isa : table) {
    if (has_all(features, isa.needs)) list.push_back(&isa);
  }
  return list;
}

template <class Isa>
const Isa* named_in(const std::vector<const Isa*>& list, const std::string& name) {
  for (const Isa* isa : list) {
    if (name == isa->name) return isa;
  }
  return nullptr;
}

// The set with this name, or what it stands for where the table has none. Throws std::invalid_argument when
// it is unknown or not available.
template <class Isa, size_t count>
const Isa& set_named(const Isa (&table)[count], const std::string& name, Features features) {
  const std::vector<const Isa*> available = available_of(table, features);
  if (const Isa* isa = named_in(available, name)) return *isa;
  for (const IsaAlias& alias : kIsaAliases) {
    if (name != alias.name || !has_all(features, alias.needs)) continue;
    for (const char* runs : alias.runs) {
      if (const Isa* other = named_in(available, runs)) return *other;
    }
  }
  std::string known;
  for (const Isa* isa : available) known += (known.empty() ? "" : ", ") + std::string(isa->name);
  throw std::invalid_argument("instruction set '" + name +
                              "' is unknown or not available on this CPU, which has " + known);
}

// The set with this name, or the first of the table that runs where it is empty.
template <class Isa, size_t count>
const Isa& set_wanted(const Isa (&table)[count], const std::string& name, Features features) {
  return name.empty() ? *available_of(table, features).front() : set_named(table, name, features);
}

// What CALIB8_ISA says; empty where it is not set.
inline std::string wanted_isa() {
  const char* name = std::getenv("CALIB8_ISA");
  return name == nullptr ? "" : name;
}

}  // namespace calib8
