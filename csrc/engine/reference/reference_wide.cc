// Steps with 16-bit codes in plain loops: what every other kernel of theirs must equal.
#include "each_element.h"
#include "reference.h"
#include "wide_rules.h"

namespace calib8::engine {
namespace {

// A tensor of codes, or of sums, of some width.
class Items {
 public:
  Items(const Memory& memory, int64_t buffer, int64_t offset, int64_t size)
      : first_(memory.data<uint8_t>(buffer, offset)), size_(size) {}
  int64_t operator[](int64_t place) const {
    if (size_ == 1) return first_[place];
    return size_ == 2 ? reinterpret_cast<const int16_t*>(first_)[place]
                      : reinterpret_cast<const int32_t*>(first_)[place];
  }
  void set(int64_t place, int64_t value) {
    if (size_ == 1) {
      first_[place] = static_cast<uint8_t>(value);
    } else if (size_ == 2) {
      reinterpret_cast<int16_t*>(first_)[place] = static_cast<int16_t>(value);
    } else {
      reinterpret_cast<int32_t*>(first_)[place] = static_cast<int32_t>(value);
    }
  }

 private:
  uint8_t* first_;
  int64_t size_;
};

struct Operands {
  Items lhs, rhs, output;

  template <class Step>
  Operands(const Step& step, const Memory& memory)
      : lhs(memory, step.pair.lhs_buffer, step.pair.lhs_offset, step.lhs_size),
        rhs(memory, step.pair.rhs_buffer, step.pair.rhs_offset, step.rhs_size),
        output(memory, step.pair.output_buffer, step.pair.output_offset, step.output_size) {}
};

int64_t product_of(const WideMul& step, int64_t lhs, int64_t rhs) {
  const int64_t acc = (lhs - step.lhs_zero) * (rhs - step.rhs_zero);
  if (step.kind == Rescale::kFloat) {
    const float scaled = static_cast<float>(acc) * static_cast<float>(step.factor);
    const float value = scaled + static_cast<float>(step.zero_point);
    return rounded_code(value, step.output_shift, step.low, step.high);
  }
  const int64_t value = multiply_wide(step.kind, acc, step.multiplier, step.exponent);
  return clamped(value + step.zero_point + step.output_shift, step.low, step.high);
}

}  // namespace

void reference_plane(const Plane& step, const Memory& memory, Part part) {
  const int16_t* input = memory.data<int16_t>(step.tensors.input_buffer, step.tensors.input_offset);
  uint8_t* output = memory.data<uint8_t>(step.tensors.output_buffer, step.tensors.output_offset);
  each_element(step.tensors, part, [&](int64_t from, int64_t to, int64_t) {
    const int code = input[from];
    output[to] = static_cast<uint8_t>(step.upper != 0 ? (code >> 8) + 128 : code & 255);
  });
}

void reference_finish(const Finish& step, const Memory& memory, Part part) {
  const Pair& pair = step.pair;
  const int32_t* lhs = memory.data<int32_t>(pair.lhs_buffer, pair.lhs_offset);
  const int32_t* rhs = memory.data<int32_t>(pair.rhs_buffer, pair.rhs_offset);
  const int32_t* bias = memory.constant<int32_t>(step.bias);
  Items output(memory, pair.output_buffer, pair.output_offset, step.output_size);
  each_element(pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t channel) {
    const int64_t acc = step.weight * lhs[a] + rhs[b] + (bias == nullptr ? 0 : bias[channel]);
    const bool sums = step.rescale.kind == Rescale::kNone;
    output.set(to,
               sums ? acc : finished(step.rescale, step.activation, step.output_size, memory, acc, channel));
  });
}

void reference_wide_add(const WideAdd& step, const Memory& memory, Part part) {
  Operands of(step, memory);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    of.output.set(to, sum_of(step.sum, of.lhs[a], of.rhs[b]));
  });
}

void reference_wide_mul(const WideMul& step, const Memory& memory, Part part) {
  Operands of(step, memory);
  each_element(step.pair, part, [&](int64_t a, int64_t b, int64_t to, int64_t) {
    of.output.set(to, product_of(step, of.lhs[a], of.rhs[b]));
  });
}

void reference_wide_lookup(const WideLookup& step, const Memory& memory, Part part) {
  const Single& tensors = step.tensors;
  const Items input(memory, tensors.input_buffer, tensors.input_offset, step.input_size);
  const Items table(memory, kConstants, step.table, step.output_size);
  Items output(memory, tensors.output_buffer, tensors.output_offset, step.output_size);
  const int64_t lowest = step.input_size == 1 ? 0 : INT16_MIN;
  each_element(tensors, part, [&](int64_t from, int64_t to, int64_t channel) {
    output.set(to, table[(step.per_channel != 0 ? channel * 256 : 0) + input[from] - lowest]);
  });
}

}  // namespace calib8::engine
