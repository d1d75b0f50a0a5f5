// GRUs in integers with AVX2.
#include "integer_gru_kernels.h"

namespace calib8::engine {

void integer_gru_avx2(const IntegerGru& step, const Memory& memory, Part part) {
  run_gru_teams<GruLaneOps>(step, memory, part);
}

}  // namespace calib8::engine
