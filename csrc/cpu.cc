// Features of this processor, their names, and CALIB8_CPU.
#include "cpu.h"

#include <cstdlib>
#include <sstream>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
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
    {"amx_tile", kAmxTile},
    {"amx_int8", kAmxInt8},
#elif defined(__aarch64__)
    {"asimd", kNeon},
    {"asimddp", kDotProducts},
    {"i8mm", kI8mm},
#else
    {"", 0},  // no set but the plain loops
#endif
};

#if defined(__x86_64__)
struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // all 0 where the processor has no such leaf
};

Leaf leaf(unsigned number, unsigned part) {
  Leaf found;
  if (__get_cpuid_count(number, part, &found.eax, &found.ebx, &found.ecx, &found.edx) == 0) return {};
  return found;
}

// Which registers the operating system keeps when threads change: XCR0, 0 where it keeps no ymm.
unsigned kept_registers(const Leaf& first) {
  constexpr unsigned kOsxsave = 1U << 27;
  if ((first.ecx & kOsxsave) == 0) return 0;
  unsigned low = 0, high = 0;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Whether this process may use the registers of tiles: Linux gives them to those that ask. They make what a
// signal leaves on the stack larger by 8 KB; a process with a stack for signals that is too small is refused,
// and later ones have to be larger.
bool tiles_granted() {
#if defined(__linux__)
  constexpr long kAskForState = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, which old headers lack
  return syscall(SYS_arch_prctl, kAskForState, kTileData) == 0;
#else
  return false;
#endif
}

// Bits of CPUID: the compiler's own list of them needs a library of its own on Windows, and old compilers do
// not know AVX-VNNI.
Features asked() {
  const Leaf first = leaf(1, 0), seventh = leaf(7, 0), further = leaf(7, 1);
  const unsigned kept = kept_registers(first);
  const bool ymm = (kept & 0x06U) == 0x06U, zmm = (kept & 0xE6U) == 0xE6U;
  const auto bit = [](unsigned word, int place, bool saved, Features feature) {
    return saved && (word >> place & 1U) != 0 ? feature : 0;
  };
  const bool avx2 = bit(seventh.ebx, 5, ymm, kAvx2) != 0, wide = bit(seventh.ebx, 16, zmm, kAvx512f) != 0;
  const bool tiles = wide && (kept >> 17 & 3U) == 3U && (seventh.edx >> 24 & 1U) != 0;
  return bit(first.ecx, 28, ymm, kAvx) | bit(seventh.ebx, 5, ymm, kAvx2) | bit(first.ecx, 23, true, kPopcnt) |
         bit(first.ecx, 12, ymm, kFma) | bit(further.eax, 4, avx2, kAvxVnni) |
         bit(seventh.ebx, 16, zmm, kAvx512f) | bit(seventh.ebx, 30, wide, kAvx512bw) |
         bit(seventh.ebx, 17, wide, kAvx512dq) | bit(seventh.ebx, 31, wide, kAvx512vl) |
         bit(seventh.ecx, 1, wide, kAvx512vbmi) | bit(seventh.ecx, 6, wide, kAvx512vbmi2) |
         bit(seventh.ecx, 11, wide, kAvx512vnni) | bit(seventh.edx, 24, tiles, kAmxTile) |
         bit(seventh.edx, 25, tiles, kAmxInt8);
}
#else
Features asked() {
#if defined(__aarch64__) && defined(__linux__)
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
#endif

// What CALIB8_CPU leaves.
Features named() {
  const char* text = std::getenv("CALIB8_CPU");
  if (text == nullptr || *text == '\0') return processor_features();
  std::istringstream words(text);
  std::vector<std::string> names;
  for (std::string word; words >> word;) names.push_back(word);
  return processor_features() & features_of(names);
}

Features seen() {
  const Features visible = named();
#if defined(__x86_64__)
  constexpr Features kTiles = kAmxTile | kAmxInt8;
  if ((visible & kTiles) == kTiles && !tiles_granted()) return visible & ~kTiles;
#endif
  return visible;
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
