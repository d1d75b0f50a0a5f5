// Softmax in plain loops: the largest code, the sum of the exponentials, one share per code.
#include "pools/shares.h"
#include "reference.h"

namespace calib8::engine {
namespace {

constexpr int kHighestEntry = 255;  // that of the largest code

// The entry of code 0 in a row with this largest code.
int64_t first_entry(const Softmax& step, int64_t largest) {
  return step.kind == Softmax::kReal ? 256 * largest : kHighestEntry - largest;
}

RowTotal row_total(const Softmax& step, const Memory& memory, const uint8_t* codes, int64_t first) {
  RowTotal total;
  for (int64_t i = 0; i < step.classes; ++i) {
    const int64_t entry = first + codes[i];
    if (step.kind == Softmax::kFloat || step.kind == Softmax::kReal) {
      total.real += memory.constant<float>(step.table)[entry];
    } else {
      const int64_t exponential = memory.constant<int32_t>(step.table)[entry];
      total.whole += step.kind == Softmax::kFixed ? rounding_divide(exponential, 12) : exponential;
    }
  }
  finish_total(step, total);
  return total;
}

}  // namespace

void reference_softmax(const Softmax& step, const Memory& memory, Part part) {
  const Range rows = share(part, step.rows);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const uint8_t* codes = memory.data<uint8_t>(step.source_buffer, step.source_offset) + row * step.classes;
    uint8_t* shares = memory.data<uint8_t>(step.target_buffer, step.target_offset) + row * step.classes;
    int64_t largest = 0;
    for (int64_t i = 0; i < step.classes; ++i) largest = codes[i] > largest ? codes[i] : largest;
    const int64_t first = first_entry(step, largest);
    const RowTotal total = row_total(step, memory, codes, first);
    for (int64_t i = 0; i < step.classes; ++i) shares[i] = share_of(step, memory, total, first + codes[i]);
  }
}

}  // namespace calib8::engine
