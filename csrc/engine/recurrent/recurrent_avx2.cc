// Recurrent layers with AVX2.
#include "recurrent_kernels.h"

namespace calib8::engine {

void recurrent_avx2(const Recurrent& step, const Memory& memory, Part part) {
  run_teams<LaneOps>(step, memory, part);
}
void real_function_avx2(const RealFunction& step, const Memory& memory, Part part) {
  function_of_values(step, memory, part);
}

}  // namespace calib8::engine
