// LSTMs in integers with AVX-512 VNNI.
#include "integer_kernels.h"

namespace calib8::engine {

void integer_lstm_avx512vnni(const IntegerLstm& step, const Memory& memory, Part part) {
  run_integer_teams<IntegerLaneOps>(step, memory, part);
}

}  // namespace calib8::engine
