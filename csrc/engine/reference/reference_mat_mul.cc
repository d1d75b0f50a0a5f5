// The product of two matrices of codes in plain loops.
//
//   acc[m, n] = Σ_k (a[m, k] − z_a)(b[k, n] − z_b)
#include "reference.h"
#include "rules.h"

namespace calib8::engine {

void reference_mat_mul(const MatMul& step, const Memory& memory, Part part) {
  const uint8_t* lhs = memory.data<uint8_t>(step.lhs_buffer, step.lhs_offset);
  const uint8_t* rhs = memory.data<uint8_t>(step.rhs_buffer, step.rhs_offset);
  const int64_t* lhs_starts = memory.constant<int64_t>(step.lhs_starts);
  const int64_t* rhs_starts = memory.constant<int64_t>(step.rhs_starts);
  const Range lines = share(part, step.batches * step.rows);
  for (int64_t line = lines.begin; line < lines.end; ++line) {
    const uint8_t* a = lhs + lhs_starts[line / step.rows] + line % step.rows * step.depth;
    const uint8_t* b = rhs + rhs_starts[line / step.rows];
    for (int64_t column = 0; column < step.columns; ++column) {
      int64_t acc = 0;
      for (int64_t k = 0; k < step.depth; ++k) {
        acc += (a[k] - step.lhs_zero) * (b[k * step.columns + column] - step.rhs_zero);
      }
      const int64_t place = line * step.columns + column;
      if (step.rescale.kind == Rescale::kNone) {
        memory.data<int32_t>(step.target_buffer, step.target_offset)[place] = static_cast<int32_t>(acc);
      } else {
        memory.data<uint8_t>(step.target_buffer, step.target_offset)[place] =
            rescaled(step.rescale, memory, static_cast<int32_t>(acc), 0);
      }
    }
  }
}

}  // namespace calib8::engine
