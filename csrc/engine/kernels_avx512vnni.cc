// The kernels of avx512vnni.
#include "kernels_avx512vnni.h"

#include "depthwise/depthwise.h"
#include "elementwise/elementwise.h"

namespace calib8::engine {

void recurrent_avx512vnni(const Recurrent& step, const Memory& memory, Part part);
void real_function_avx512vnni(const RealFunction& step, const Memory& memory, Part part);
void integer_lstm_avx512vnni(const IntegerLstm& step, const Memory& memory, Part part);
void integer_gru_avx512vnni(const IntegerGru& step, const Memory& memory, Part part);
void fill_borders_avx512vnni(KernelTable& table);
void fill_pools_avx512vnni(KernelTable& table);
void fill_wide_avx512vnni(KernelTable& table);

void fill_avx512vnni(KernelTable& table) {
  set_kernel<Conv, conv_avx512vnni>(table);
  set_kernel<WideConv, wide_conv_avx512vnni>(table);
  set_kernel<Depthwise, depthwise_avx512vnni>(table);
  set_kernel<Recurrent, recurrent_avx512vnni>(table);
  set_kernel<RealFunction, real_function_avx512vnni>(table);
  set_kernel<IntegerLstm, integer_lstm_avx512vnni>(table);
  set_kernel<IntegerGru, integer_gru_avx512vnni>(table);
  fill_elementwise_avx512vnni(table);
  fill_words_avx512vnni(table);
  fill_borders_avx512vnni(table);
  fill_pools_avx512vnni(table);
  fill_wide_avx512vnni(table);
}

}  // namespace calib8::engine
