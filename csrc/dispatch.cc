// The one table of instruction sets and the choice among them.
#include "dispatch.h"

#include "isa_names.h"

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
    {"avx512", has_avx512, count_avx512, measure_avx512, subtract_product_avx2},
    {"avx2", has_avx2, count_avx2, measure_avx2, subtract_product_avx2},
#endif
    {"reference", always, count_reference, measure_reference, subtract_product_reference},
};

}  // namespace

std::vector<const Isa*> available_isas() { return available_of(kPriority); }

const Isa& isa_by_name(const std::string& name) { return set_named(kPriority, name); }

const Isa& active_isa() {
  static const Isa& isa = set_wanted(kPriority);
  return isa;
}

std::string cpu_type() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "x86_64 avx512f";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "x86_64 avx2";
  return __builtin_cpu_supports("avx") ? "x86_64 avx" : "x86_64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "other";
#endif
}

#if defined(__x86_64__)
DefaultRounding::DefaultRounding() : caller_(_mm_getcsr()) {
  constexpr unsigned kDefault = 0x1F80;  // all exceptions masked, round to nearest, denormals kept
  _mm_setcsr(kDefault);
}

DefaultRounding::~DefaultRounding() { _mm_setcsr(caller_); }
#else
DefaultRounding::DefaultRounding() : caller_(0) {}

DefaultRounding::~DefaultRounding() { (void)caller_; }
#endif

}  // namespace calib8
