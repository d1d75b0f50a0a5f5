// GroupNorm in plain loops: the sums of a group, then one code after the other.
#include "pools/groups.h"
#include "reference.h"

namespace calib8::engine {
namespace {

uint8_t group_code(const GroupNorm& step, const Memory& memory, const Group& group, int64_t code,
                   int64_t channel) {
  if (step.kind == GroupNorm::kFloat) {
    const FloatChannel made = float_channel(step, memory, group, channel);
    const float value = static_cast<float>(code - group.centre) * made.factor;
    const float moved = value + made.offset;
    return static_cast<uint8_t>(rounded_code(moved, step.zero_point, step.low, step.high));
  }
  const FixedChannel made = fixed_channel(step, memory, group, channel);
  const int64_t steps = (code * made.factor + made.offset) >> made.shift;
  return static_cast<uint8_t>(clamped(steps + step.zero_point, step.low, step.high));
}

// Calls make(row, column, channel) for all codes of a group.
template <class Make>
void each_code(const GroupNorm& step, int64_t number, Make make) {
  const int64_t size = step.input.channels / step.groups;
  for (int64_t row = 0; row < step.input.rows; ++row) {
    for (int64_t column = 0; column < step.input.columns; ++column) {
      for (int64_t channel = number * size; channel < (number + 1) * size; ++channel) {
        make(row, column, channel);
      }
    }
  }
}

}  // namespace

void reference_group_norm(const GroupNorm& step, const Memory& memory, Part part) {
  const View &in = step.input, &out = step.output;
  const uint8_t* input = memory.data<uint8_t>(in);
  uint8_t* output = memory.data<uint8_t>(out);
  each_group_block(step, part, [&](int64_t image, int64_t first, int64_t end) {
    for (int64_t number = first; number < end; ++number) {
      int64_t sum = 0, squares = 0;
      each_code(step, number, [&](int64_t row, int64_t column, int64_t channel) {
        const int64_t code = input[in.at(image, row, column) + channel];
        sum += code;
        squares += code * code;
      });
      const Group group = group_of(step, sum, squares);
      each_code(step, number, [&](int64_t row, int64_t column, int64_t channel) {
        const int64_t code = input[in.at(image, row, column) + channel];
        output[out.at(image, row, column) + channel] = group_code(step, memory, group, code, channel);
      });
    }
  });
}

}  // namespace calib8::engine
