// The kernels of avx2.
#include "depthwise/depthwise.h"
#include "elementwise/elementwise.h"
#include "kernels.h"

namespace calib8::engine {

void avx2_conv(const Conv& step, const Memory& memory, Part part);
void avx2_wide_conv(const WideConv& step, const Memory& memory, Part part);
void fill_moves_avx2(KernelTable& table);
void fill_borders_avx2(KernelTable& table);
void fill_pools_avx2(KernelTable& table);
void fill_wide_avx2(KernelTable& table);

void fill_avx2(KernelTable& table) {
  set_kernel<Conv, avx2_conv>(table);
  set_kernel<WideConv, avx2_wide_conv>(table);
  set_kernel<Depthwise, depthwise_avx2>(table);
  fill_elementwise_avx2(table);
  fill_words_avx2(table);
  fill_moves_avx2(table);
  fill_borders_avx2(table);
  fill_pools_avx2(table);
  fill_wide_avx2(table);
}

}  // namespace calib8::engine
