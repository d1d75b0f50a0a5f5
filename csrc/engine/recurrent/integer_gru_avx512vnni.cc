// GRUs in integers with AVX-512 VNNI.
#include "integer_gru_kernels.h"

namespace calib8::engine {

void integer_gru_avx512vnni(const IntegerGru& step, const Memory& memory, Part part) {
  run_gru_teams<GruLaneOps>(step, memory, part);
}

}  // namespace calib8::engine
