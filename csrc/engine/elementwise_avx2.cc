// Elementwise kernels with AVX2 and FMA.
#include "elementwise.h"
#include "elementwise_lanes_avx2.h"
#include "lookup_avx2.h"

namespace calib8::engine {
namespace {

void look_up(const uint8_t* table, const uint8_t* x, uint8_t* y, int64_t count) {
  look_up_avx2(table, x, y, count);
}

}  // namespace
}  // namespace calib8::engine

// Behind the vectors that it is made of:
#include "elementwise_kernels.h"

namespace calib8::engine {

void fill_elementwise_avx2(KernelTable& table) { set_elementwise(table); }

}  // namespace calib8::engine
