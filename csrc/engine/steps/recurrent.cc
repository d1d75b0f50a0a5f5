// What the steps of recurrent layers and of their functions may touch.
#include "recurrent.h"

#include <cfloat>
#include <cmath>

#include "checks.h"

namespace calib8::engine {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 31;

Extent dense(int64_t outer, int64_t inner, int64_t last) {
  return Extent().along(outer, inner * last).along(inner, last).along(last, 1);
}

void check_optional(const Limits& limits, int64_t buffer, int64_t offset, const Extent& extent) {
  if (buffer >= 0) return limits.reads_exactly(buffer, offset, extent, 4);
  require(buffer == -1, "a buffer that does not exist");
}

void check_constants(const Recurrent& step, const Limits& limits) {
  const int64_t lanes = step.directions * step.lanes(), block = Recurrent::kBlock;
  for (const int64_t numbers :
       {step.weight_scale, step.weight_sum, step.bias, step.recurrent_scale, step.recurrent_sum}) {
    limits.array<float>(numbers, lanes);
  }
  limits.array<int8_t>(step.weight, 4 * Recurrent::quads(step.inputs) * lanes);
  limits.array<int8_t>(step.recurrent, 4 * Recurrent::quads(step.units) * lanes);
  require(step.weight % 64 == 0 && step.recurrent % 64 == 0, "weights that are not aligned");
  if (step.inner_bias >= 0) {
    require(step.cell == Recurrent::kGru, "an inner bias of no GRU");
    limits.array<float>(step.inner_bias, step.directions * step.blocks() * block);
  }
  if (step.peephole >= 0) {
    require(step.cell == Recurrent::kLstm, "peepholes of no LSTM");
    limits.array<float>(step.peephole, step.directions * step.blocks() * 3 * block);
  }
  const auto* function = limits.array<int32_t>(step.functions, step.directions * 9);
  for (int64_t i = 0; i < step.directions * Recurrent::kFunctions; ++i) {
    require(within(function[3 * i], Recurrent::kSigmoid, Recurrent::kScaledTanh), "an unknown function");
  }
}

}  // namespace

void check_step(const Recurrent& step, Limits& limits) {
  require(within(step.cell, Recurrent::kLstm, Recurrent::kRnn), "an unknown recurrent layer");
  require(within(step.directions, 1, 2) && within(step.reverse, 0, 3), "directions that are none");
  for (const int64_t size : {step.steps, step.samples}) require(within(size, 1, kMostSize), "an absurd size");
  for (const int64_t depth : {step.inputs, step.units}) {
    require(within(depth, 1, Recurrent::kMostProducts), "sums of too many products");
  }
  require(step.coupled == 0 || step.coupled == 1, "gates that are neither coupled nor free");
  require(step.clip >= 0 && std::isfinite(step.clip), "a bound of functions that is none");
  limits.reads_exactly(step.source_buffer, step.source_offset, dense(step.steps, step.samples, step.inputs),
                       4);
  const Extent state = dense(step.directions, step.samples, step.units);
  check_optional(limits, step.h_buffer, step.h_offset, state);
  check_optional(limits, step.c_buffer, step.c_offset, state);
  check_optional(limits, step.lengths_buffer, step.lengths_offset, Extent().along(step.samples, 1));
  limits.writes(step.target_buffer, step.target_offset,
                dense(step.steps + step.states(), step.directions * step.samples, step.units), 4);
  check_constants(step, limits);
}

void check_step(const RealFunction& step, Limits& limits) {
  require(within(step.count, 1, kMostSize), "an absurd size");
  require(within(step.function, Recurrent::kSigmoid, Recurrent::kScaledTanh), "an unknown function");
  for (const double number : {step.alpha, step.beta}) {
    require(std::isfinite(number) && std::fabs(number) <= FLT_MAX, "a parameter of a function that is none");
  }
  const Extent values = Extent().along(step.count, 1);
  limits.reads_exactly(step.source_buffer, step.source_offset, values, 4);
  limits.writes(step.target_buffer, step.target_offset, values, 4);
}

}  // namespace calib8::engine
