// The one table of the sets that count, and the choice among them.
#include "dispatch.h"

#include "isa_names.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace calib8 {
namespace {

const Isa kPriority[] = {
#if defined(__x86_64__)
    {"avx512", kCountAvx512, count_avx512, measure_avx512, subtract_product_avx2},
    {"avx2", kCountAvx2, count_avx2, measure_avx2, subtract_product_avx2},
#endif
    {"reference", 0, count_reference, measure_reference, subtract_product_reference},
};

}  // namespace

std::vector<const Isa*> available_isas(Features features) { return available_of(kPriority, features); }

const Isa& isa_by_name(const std::string& name) { return set_named(kPriority, name, features()); }

const Isa& chosen_isa(const std::string& name, Features features) {
  return set_wanted(kPriority, name, features);
}

const Isa& active_isa() {
  static const Isa& isa = chosen_isa(wanted_isa(), features());
  return isa;
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
