// What the step of GRUs in integers may touch.
#include "integer_gru.h"

#include "checks.h"
#include "integer_lstm.h"

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

void check_states(const IntegerGru& step, Limits& limits) {
  const Extent state = dense(1, step.samples, step.units);
  require(step.h_buffer >= -1 && step.last_buffer >= -1, "a buffer that does not exist");
  if (step.h_buffer >= 0) limits.reads_exactly(step.h_buffer, step.h_offset, state, sizeof(int16_t));
  if (step.last_buffer >= 0) limits.writes(step.last_buffer, step.last_offset, state, sizeof(int16_t));
}

}  // namespace

void check_step(const IntegerGru& step, Limits& limits) {
  require(within(step.time_first, 0, 1) && within(step.reverse, 0, 1) && within(step.reset_after, 0, 1),
          "an unknown form of GRU");
  for (const int64_t size : {step.steps, step.samples}) require(within(size, 1, kMostSize), "an absurd size");
  for (const int64_t depth : {step.inputs, step.units}) {
    require(within(depth, 1, IntegerGru::kMostProducts), "sums of too many products");
  }
  require(within(step.h_zero, 0, 255), "a zero point that is no code");
  limits.reads_exactly(step.source_buffer, step.source_offset, dense(step.steps, step.samples, step.inputs));
  limits.writes(step.target_buffer, step.target_offset, dense(step.steps, step.samples, step.units));
  check_states(step, limits);
  const int64_t lanes = step.blocks() * IntegerGru::kBlock;
  check_weights(limits, {step.weight, step.weight_sum, step.weight_start}, 3 * lanes, step.inputs);
  check_weights(limits, {step.recurrent, step.recurrent_sum, step.recurrent_start}, 2 * lanes, step.units);
  check_weights(limits, {step.candidate, step.candidate_sum, step.candidate_start}, lanes, step.units);
  const auto* factors = limits.array<int32_t>(step.factors, 2 * IntegerGru::kFactors);
  for (int64_t i = 0; i < IntegerGru::kFactors; ++i) check_fixed(factors[2 * i], factors[2 * i + 1]);
}

}  // namespace calib8::engine
