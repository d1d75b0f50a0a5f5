// Features of this processor, their names, and CALIB8_CPU.
#include "cpu.h"

#include <cstdlib>
#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace calib8 {
namespace {

struct Named {
  const char* name;
  Features feature;
};

const Named kNames[] = {
#if defined(__x86_64__)
    {"avx", kAvx},
    {"avx2", kAvx2},
    {"popcnt", kPopcnt},
    {"fma", kFma},
    {"avx_vnni", kAvxVnni},
    {"avx512f", kAvx512f},
    {"avx512bw", kAvx512bw},
    {"avx512dq", kAvx512dq},
    {"avx512vl", kAvx512vl},
    {"avx512vbmi", kAvx512vbmi},
    {"avx512_vbmi2", kAvx512vbmi2},
    {"avx512_vnni", kAvx512vnni},
#elif defined(__aarch64__)
    {"asimd", kNeon},
    {"asimddp", kDotProducts},
    {"i8mm", kI8mm},
#else
    {"", 0},  // no set but the plain loops
#endif
};

#if defined(__x86_64__)
// AVX-VNNI: CPUID 7.1, EAX bit 4 (compilers learned its name late).
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & (1U << 4)) != 0;
}
#endif

Features asked() {
#if defined(__x86_64__)
  const auto bit = [](bool has, Features feature) { return has ? feature : 0; };
  const bool avx2 = __builtin_cpu_supports("avx2");  // and the system saves ymm
  return bit(__builtin_cpu_supports("avx"), kAvx) | bit(avx2, kAvx2) |
         bit(__builtin_cpu_supports("popcnt"), kPopcnt) | bit(__builtin_cpu_supports("fma"), kFma) |
         bit(avx2 && has_avx_vnni(), kAvxVnni) | bit(__builtin_cpu_supports("avx512f"), kAvx512f) |
         bit(__builtin_cpu_supports("avx512bw"), kAvx512bw) |
         bit(__builtin_cpu_supports("avx512dq"), kAvx512dq) |
         bit(__builtin_cpu_supports("avx512vl"), kAvx512vl) |
         bit(__builtin_cpu_supports("avx512vbmi"), kAvx512vbmi) |
         bit(__builtin_cpu_supports("avx512vbmi2"), kAvx512vbmi2) |
         bit(__builtin_cpu_supports("avx512vnni"), kAvx512vnni);
#elif defined(__aarch64__) && defined(__linux__)
  const unsigned long has = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  constexpr unsigned long kMatrixProducts = 1UL << 13;  // HWCAP2_I8MM, which headers learned late
  return ((has & HWCAP_ASIMD) != 0 ? kNeon : 0) | ((has & HWCAP_ASIMDDP) != 0 ? kDotProducts : 0) |
         ((more & kMatrixProducts) != 0 ? kI8mm : 0);
#elif defined(__aarch64__)
  return kNeon | kDotProducts;
#else
  return 0;
#endif
}

Features seen() {
  const char* text = std::getenv("CALIB8_CPU");
  if (text == nullptr || *text == '\0') return processor_features();
  std::istringstream words(text);
  std::vector<std::string> names;
  for (std::string word; words >> word;) names.push_back(word);
  return processor_features() & features_of(names);
}

}  // namespace

Features processor_features() {
  static const Features all = asked();
  return all;
}

Features features() {
  static const Features visible = seen();
  return visible;
}

Features features_of(const std::vector<std::string>& names) {
  Features features = 0;
  for (const std::string& name : names) {
    for (const Named& named : kNames) {
      if (name == named.name) features |= named.feature;
    }
  }
  return features;
}

std::vector<std::string> names_of(Features features) {
  std::vector<std::string> names;
  for (const Named& named : kNames) {
    if ((features & named.feature) != 0) names.emplace_back(named.name);
  }
  return names;
}

std::string cpu_type([[maybe_unused]] Features features) {
#if defined(__x86_64__)
  if ((features & kAvx512f) != 0) return "x86_64 avx512f";
  if ((features & kAvx2) != 0 && (features & kFma) != 0) return "x86_64 avx2";
  return (features & kAvx) != 0 ? "x86_64 avx" : "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

}  // namespace calib8
