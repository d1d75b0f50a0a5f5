// GRUs in integers with AVX-VNNI.
#include "integer_gru_kernels.h"

namespace calib8::engine {

void integer_gru_avxvnni(const IntegerGru& step, const Memory& memory, Part part) {
  run_gru_teams<GruLaneOps>(step, memory, part);
}

}  // namespace calib8::engine
