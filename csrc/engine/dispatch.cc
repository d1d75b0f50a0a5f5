// The one table of the engine's instruction sets and the choice among them.
#include "../isa_names.h"
#include "kernels.h"

namespace calib8::engine {
namespace {

const Isa kPriority[] = {
#if defined(__x86_64__)
#if !defined(CALIB8_NO_AVX512VNNI) && !defined(CALIB8_NO_AMX)
    {"amx", kEngineAmx, fill_amx, "avx512vnni", false},
#endif
#if !defined(CALIB8_NO_AVX512VNNI)
    {"avx512vnni", kEngineAvx512Vnni, fill_avx512vnni, "avx2", false},
#endif
#if !defined(CALIB8_NO_AVXVNNI)
    {"avxvnni", kEngineAvxVnni, fill_avxvnni, "avx2", false},
#endif
    {"avx2", kEngineAvx2, fill_avx2, "reference", true},
#endif
#if defined(__aarch64__)
    {"neoni8mm", kEngineNeonI8mm, fill_neoni8mm, "neondot", false},
    {"neondot", kEngineNeonDot, fill_neondot, "neon", false},
    {"neon", kEngineNeon, fill_neon, "reference", false},
#endif
    {"reference", 0, fill_reference, nullptr, false},
};

}  // namespace

std::vector<const Isa*> available_isas(Features features) { return available_of(kPriority, features); }

const Isa& isa_by_name(const std::string& name) { return set_named(kPriority, name, features()); }

const Isa& chosen_isa(const std::string& name, Features features) {
  return set_wanted(kPriority, name, features);
}

const Isa& default_isa() { return chosen_isa(wanted_isa(), features()); }

KernelTable kernel_table(const Isa& isa) {
  KernelTable table{};
  if (isa.base != nullptr) table = kernel_table(isa_by_name(isa.base));
  isa.fill(table);
  return table;
}

Origins kernel_origins(const Isa& isa) {
  Origins origins{};
  if (isa.base != nullptr) origins = kernel_origins(isa_by_name(isa.base));
  KernelTable own{};
  isa.fill(own);
  for (size_t kind = 0; kind < own.size(); ++kind) {
    if (own[kind] != nullptr) origins[kind] = isa.name;
  }
  return origins;
}

}  // namespace calib8::engine
