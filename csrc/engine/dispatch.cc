// The one table of the engine's instruction sets and the choice among them.
#include "../isa_names.h"
#include "kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace calib8::engine {
namespace {

bool always() { return true; }

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// AVX-VNNI: CPUID 7.1, EAX bit 4 (compilers learned its name late). AVX2 says that the system saves ymm.
bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 4)) != 0;
}

bool has_avx512vnni() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#endif

#if defined(__aarch64__)
bool has_neondot() {
#if defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return true;
#endif
}
#endif

const Isa kPriority[] = {
#if defined(__x86_64__)
    {"avx512vnni", has_avx512vnni, fill_avx512vnni, "avx2"},
    {"avxvnni", has_avxvnni, fill_avxvnni, "avx2"},
    {"avx2", has_avx2, fill_avx2, "reference"},
#endif
#if defined(__aarch64__)
    {"neondot", has_neondot, fill_neondot, "reference"},
#endif
    {"reference", always, fill_reference, nullptr},
};

}  // namespace

std::vector<const Isa*> available_isas() { return available_of(kPriority); }

const Isa& isa_by_name(const std::string& name) { return set_named(kPriority, name); }

const Isa& default_isa() { return set_wanted(kPriority); }

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
