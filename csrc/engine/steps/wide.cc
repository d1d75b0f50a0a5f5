// What steps with 16-bit codes may touch.
#include "wide.h"

#include <algorithm>

#include "checks.h"

namespace calib8::engine {
namespace {

int64_t code_size(int64_t size) {
  require(size == 1 || size == 2, "elements of another size than codes");
  return size;
}

void check_floats(int64_t offset, const Axes& strides) {
  for (const int64_t stride : strides) require(stride % 4 == 0, "floats that are not aligned");
  require(offset % 4 == 0, "floats that are not aligned");
}

void check_words(int64_t offset, const Axes& strides) {
  for (const int64_t stride : strides) require(stride % 2 == 0, "codes that are not aligned");
  require(offset % 2 == 0, "codes that are not aligned");
}

// Zero points in their own domain: raw ones of int16, stored ones of 8 bits.
void check_zero(int64_t zero, int64_t size) {
  require(size == 1 ? within(zero, -128, 255) : within(zero, INT16_MIN, INT16_MAX),
          "a zero point that is no code");
}

}  // namespace

void check_step(const Plane& step, Limits& limits) {
  require(within(step.upper, 0, 1), "an unknown plane");
  check_single(step.tensors, limits, 2);
}

void check_step(const Finish& step, Limits& limits) {
  require(step.weight == 0 || step.weight == 256, "an unknown weight of sums");
  const bool sums = step.rescale.kind == Rescale::kNone;
  require(sums == (step.output_size == 4), "elements of another size than their rule makes");
  if (!sums) code_size(step.output_size);
  check_pair(step.pair, limits, 4, 4, step.output_size);
  const int64_t channels = (step.pair.sizes[kAxes - 1] + kPadded - 1) / kPadded * kPadded;
  require((step.weight == 0) == (step.bias < 0), "sums of 32 bits with a bias of their own");
  if (step.bias >= 0) limits.array<int32_t>(step.bias, channels);
  require(step.weight == 0 || step.rescale.kind == Rescale::kNone || step.rescale.kind == Rescale::kFloat ||
              step.rescale.kind == Rescale::kSingle,
          "a rule of sums of 32 bits");
  check_rescale(step.rescale, limits, channels, step.output_size);
  check_activation(step.activation, step.rescale, limits, channels);
}

void check_step(const WideAdd& step, Limits& limits) {
  check_pair(step.pair, limits, code_size(step.lhs_size), code_size(step.rhs_size),
             code_size(step.output_size));
  const int64_t widest = std::max({step.lhs_size, step.rhs_size, step.output_size});
  check_sum(step.sum, step.output_size, widest);
  const bool bytes = step.lhs_size == 1 && step.rhs_size == 1;
  require(step.sum.kind != SumRule::kScaled || bytes || step.sum.left_shift <= 15,
          "a shift that takes sums of 16-bit codes beyond int32");
}

void check_step(const WideMul& step, Limits& limits) {
  check_pair(step.pair, limits, code_size(step.lhs_size), code_size(step.rhs_size),
             code_size(step.output_size));
  check_zero(step.lhs_zero, step.lhs_size);
  check_zero(step.rhs_zero, step.rhs_size);
  check_zero(step.zero_point, step.output_size);
  check_codes(step.low, step.high, step.output_size);
  require(step.output_shift == 0 || step.output_shift == 128, "a shift of codes that is neither 0 nor 128");
  require(within(step.kind, Rescale::kFloat, Rescale::kAway), "an unknown rescale");
  require(step.kind != Rescale::kAway || (step.lhs_size == 1 && step.rhs_size == 1),
          "a rule of products of 8-bit codes");
  if (step.kind != Rescale::kFloat) check_fixed(step.multiplier, step.exponent);
}

void check_step(const WideLookup& step, Limits& limits) {
  check_single(step.tensors, limits, code_size(step.input_size), code_size(step.output_size));
  require(step.per_channel == 0 || step.input_size == 1, "tables per channel of 16-bit codes");
  const int64_t codes = step.input_size == 1 ? 256 : int64_t{1} << 16;
  const int64_t tables = step.per_channel == 0 ? 1 : step.tensors.sizes[kAxes - 1];
  if (step.output_size == 1) {
    limits.array<uint8_t>(step.table, tables * codes);
  } else {
    limits.array<int16_t>(step.table, tables * codes);
  }
}

void check_step(const WideMaxPool& step, Limits& limits) {
  limits.reads(step.input, 2);
  limits.writes(step.output, 2);
  check_window(step.window, step.input, step.output);
}

void check_step(const WideQuantize& step, Limits& limits) {
  check_floats(step.source_offset, step.source_strides);
  check_words(step.target_offset, step.target_strides);
  check_zero(step.zero_point, 2);
  limits.reads_exactly(step.source_buffer, step.source_offset,
                       box(step.sizes, step.source_strides).moved(0, 3));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides).runs(2));
}

void check_step(const WideDequantize& step, Limits& limits) {
  check_words(step.source_offset, step.source_strides);
  check_floats(step.target_offset, step.target_strides);
  check_zero(step.zero_point, 2);
  limits.reads_exactly(step.source_buffer, step.source_offset,
                       box(step.sizes, step.source_strides).moved(0, 1));
  limits.writes(step.target_buffer, step.target_offset, box(step.sizes, step.target_strides).runs(4));
}

void check_step(const WideConv& step, Limits& limits) {
  check_layer(step.layer, limits, code_size(step.input_size), code_size(step.output_size));
  require(step.layer.sum.kind == SumRule::kNone && step.layer.table < 0,
          "a sum or a table behind 16-bit codes");
  require(step.layer.rescale.kind != Rescale::kNone, "sums behind 16-bit codes");
}

void check_step(const WideDepthwise& step, Limits& limits) {
  check_layer(step.layer, limits, code_size(step.input_size), code_size(step.output_size));
  require(step.layer.table < 0, "a table behind 16-bit codes");
  require(step.layer.rescale.kind != Rescale::kNone, "sums behind 16-bit codes");
}

void check_step(const WideFillHalo& step, Limits& limits) {
  check_border(step.border, limits, 2);
  check_zero(step.border.value, 2);
}

void check_step(const WideLength& step, Limits& limits) {
  const Reduce& of = step.reduction;
  require(of.kind == Reduce::kLength, "a reduction of 16-bit codes that is no length");
  check_zero(of.zero_point, code_size(step.input_size));
  Extent read = box(of.outer_sizes, of.outer_strides), inner;
  for (int axis = 0; axis < kAxes; ++axis) {
    read.along(of.inner_sizes[axis], of.inner_strides[axis]);
    inner.along(of.inner_sizes[axis], 1);
  }
  require(inner.count <= WideLength::kMostCodes, "a length of too many codes");
  require(read.count <= read.high - read.low + 1, "a reduction that reads an element twice");
  limits.reads_exactly(of.source_buffer, of.source_offset, read, step.input_size);
  limits.writes(of.target_buffer, of.target_offset, box(of.outer_sizes, of.target_strides),
                code_size(step.output_size));
  const auto kind = of.rescale.kind;
  require(kind != Rescale::kNone && kind != Rescale::kDouble, "a length of another rule");
  check_rescale(of.rescale, limits, 1, step.output_size);
}

void check_step(const WideLayerNorm& step, Limits& limits) {
  const LayerNorm& norm = step.norm;
  const View &in = norm.input, &out = norm.output;
  limits.reads_exactly(in.buffer, in.offset, extent_of(in), code_size(step.input_size));
  limits.writes(out, code_size(step.output_size));
  require(in.images == out.images && in.rows == out.rows && in.columns == out.columns &&
              in.channels == out.channels,
          "a LayerNorm that changes its shape");
  require(within(step.centred, 0, 1), "a centre that is none");
  const int64_t most = step.centred != 0 ? LayerNorm::kMostChannels : LayerNorm::kMostChannels / 2;
  require(in.channels <= most, "a LayerNorm of too many channels");
  require(norm.kind == LayerNorm::kFloat, "a LayerNorm of 16-bit codes in another rule than float32");
  check_zero(norm.centre, step.input_size);
  check_zero(norm.zero_point, step.output_size);
  check_codes(norm.low, norm.high, step.output_size);
  limits.array<float>(norm.factor, in.channels);
  limits.array<float>(norm.offset, in.channels);
  require(norm.epsilon >= 0, "an epsilon below 0");
}

}  // namespace calib8::engine
