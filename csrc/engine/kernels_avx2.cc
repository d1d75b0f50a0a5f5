// The kernels of avx2.
#include "depthwise/depthwise.h"
#include "elementwise/elementwise.h"
#include "kernels.h"

namespace calib8::engine {

void conv_avx2(const Conv& step, const Memory& memory, Part part);
void wide_conv_avx2(const WideConv& step, const Memory& memory, Part part);
void recurrent_avx2(const Recurrent& step, const Memory& memory, Part part);
void real_function_avx2(const RealFunction& step, const Memory& memory, Part part);
void integer_lstm_avx2(const IntegerLstm& step, const Memory& memory, Part part);
void integer_gru_avx2(const IntegerGru& step, const Memory& memory, Part part);
void fill_moves_avx2(KernelTable& table);
void fill_borders_avx2(KernelTable& table);
void fill_pools_avx2(KernelTable& table);
void fill_wide_avx2(KernelTable& table);

void fill_avx2(KernelTable& table) {
  set_kernel<Conv, conv_avx2>(table);
  set_kernel<WideConv, wide_conv_avx2>(table);
  set_kernel<Depthwise, depthwise_avx2>(table);
  set_kernel<Recurrent, recurrent_avx2>(table);
  set_kernel<RealFunction, real_function_avx2>(table);
  set_kernel<IntegerLstm, integer_lstm_avx2>(table);
  set_kernel<IntegerGru, integer_gru_avx2>(table);
  fill_elementwise_avx2(table);
  fill_words_avx2(table);
  fill_moves_avx2(table);
  fill_borders_avx2(table);
  fill_pools_avx2(table);
  fill_wide_avx2(table);
}

}  // namespace calib8::engine
