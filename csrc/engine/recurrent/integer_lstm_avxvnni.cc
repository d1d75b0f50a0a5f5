// LSTMs in integers with AVX-VNNI.
#include "integer_kernels.h"

namespace calib8::engine {

void integer_lstm_avxvnni(const IntegerLstm& step, const Memory& memory, Part part) {
  run_integer_teams<IntegerLaneOps>(step, memory, part);
}

}  // namespace calib8::engine
