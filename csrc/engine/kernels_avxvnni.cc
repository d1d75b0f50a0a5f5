// The kernels of avxvnni.
#include "depthwise/depthwise.h"
#include "kernels.h"

namespace calib8::engine {

void conv_avxvnni(const Conv& step, const Memory& memory, Part part);
void wide_conv_avxvnni(const WideConv& step, const Memory& memory, Part part);
void recurrent_avxvnni(const Recurrent& step, const Memory& memory, Part part);
void integer_lstm_avxvnni(const IntegerLstm& step, const Memory& memory, Part part);
void integer_gru_avxvnni(const IntegerGru& step, const Memory& memory, Part part);
void fill_wide_avxvnni(KernelTable& table);

void fill_avxvnni(KernelTable& table) {
  set_kernel<Conv, conv_avxvnni>(table);
  set_kernel<Depthwise, depthwise_avxvnni>(table);
  set_kernel<WideConv, wide_conv_avxvnni>(table);
  set_kernel<Recurrent, recurrent_avxvnni>(table);
  set_kernel<IntegerLstm, integer_lstm_avxvnni>(table);
  set_kernel<IntegerGru, integer_gru_avxvnni>(table);
  fill_wide_avxvnni(table);
}

}  // namespace calib8::engine
