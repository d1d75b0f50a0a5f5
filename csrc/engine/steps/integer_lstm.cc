// What the step of LSTMs in integers may touch.
#include "integer_lstm.h"

#include "checks.h"

namespace calib8::engine {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 31;

Extent dense(int64_t outer, int64_t inner, int64_t last) {
  return Extent().along(outer, inner * last).along(inner, last).along(last, 1);
}

// Weights [rows in blocks of `gates`, depth] with their sums and starts.
void check_weights(const Limits& limits, const int64_t (&constants)[3], int64_t lanes, int64_t depth) {
  limits.array<int8_t>(constants[0], 4 * IntegerLstm::quads(depth) * lanes);
  require(constants[0] % 64 == 0, "weights that are not aligned");
  limits.array<int32_t>(constants[1], lanes);
  limits.array<int32_t>(constants[2], lanes);
}

void check_factors(const IntegerLstm& step, const Limits& limits) {
  const auto* factors = limits.array<int32_t>(step.factors, 2 * IntegerLstm::kFactors);
  for (int64_t i = 0; i < IntegerLstm::kFactors; ++i) check_fixed(factors[2 * i], factors[2 * i + 1]);
  for (int64_t gate = 0; gate < IntegerLstm::kGates; ++gate) {
    const int32_t shift = factors[2 * (IntegerLstm::kNorm + gate) + 1];
    require(shift <= 0, "a norm with a factor beyond 1");
  }
}

void check_norm(const IntegerLstm& step, const Limits& limits) {
  if (step.norm < 0) return;
  limits.array<int16_t>(step.norm, IntegerLstm::kGates * step.words());
  limits.array<int32_t>(step.norm_bias, IntegerLstm::kGates * step.words());
  const auto* guard = limits.array<int32_t>(step.norm_guard, IntegerLstm::kGates);
  for (int64_t gate = 0; gate < IntegerLstm::kGates; ++gate) {
    require(guard[gate] >= 1, "a guard of a norm below 1");
  }
}

void check_first(const Limits& limits, int64_t buffer, int64_t offset, const Extent& extent, int64_t item) {
  if (buffer >= 0) return limits.reads_exactly(buffer, offset, extent, item);
  require(buffer == -1, "a buffer that does not exist");
}

void check_states(const IntegerLstm& step, Limits& limits) {
  const Extent cell = dense(1, step.samples, step.units);
  check_first(limits, step.h_buffer, step.h_offset, dense(1, step.samples, step.width), 1);
  check_first(limits, step.c_buffer, step.c_offset, cell, sizeof(int16_t));
  if (step.last_buffer >= 0) return limits.writes(step.last_buffer, step.last_offset, cell, sizeof(int16_t));
  require(step.last_buffer == -1, "a buffer that does not exist");
}

}  // namespace

void check_step(const IntegerLstm& step, Limits& limits) {
  require(within(step.time_first, 0, 1) && within(step.coupled, 0, 1) && within(step.reverse, 0, 1),
          "an unknown form of LSTM");
  for (const int64_t size : {step.steps, step.samples}) require(within(size, 1, kMostSize), "an absurd size");
  for (const int64_t depth : {step.inputs, step.units, step.width}) {
    require(within(depth, 1, IntegerLstm::kMostProducts), "sums of too many products");
  }
  require(within(step.h_zero, 0, 255) && within(step.hidden_zero, -128, 127), "a zero point that is no code");
  require(within(step.cell_bits, 0, 6), "integer bits of a cell out of range");
  require(within(step.cell_clip, 0, INT16_MAX) && within(step.projection_clip, 0, INT8_MAX),
          "a bound that is none");
  limits.reads_exactly(step.source_buffer, step.source_offset, dense(step.steps, step.samples, step.inputs));
  limits.writes(step.target_buffer, step.target_offset, dense(step.steps, step.samples, step.width));
  check_states(step, limits);
  const int64_t lanes = step.blocks() * step.gates() * IntegerLstm::kBlock;
  check_weights(limits, {step.weight, step.weight_sum, step.weight_start}, lanes, step.inputs);
  check_weights(limits, {step.recurrent, step.recurrent_sum, step.recurrent_start}, lanes, step.width);
  check_factors(step, limits);
  if (step.peephole >= 0) limits.array<int16_t>(step.peephole, IntegerLstm::kGates * step.words());
  check_norm(step, limits);
  require(step.projection >= 0 || step.width == step.units, "an h that is wider than its units");
  if (step.projection < 0) return;
  const int64_t rows = (step.width + IntegerLstm::kBlock - 1) / IntegerLstm::kBlock * IntegerLstm::kBlock;
  check_weights(limits, {step.projection, step.projection_sum, step.projection_start}, rows, step.units);
}

}  // namespace calib8::engine
