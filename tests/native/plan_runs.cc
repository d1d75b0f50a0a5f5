// Runs the first of recorded plans on one instruction set as often as it is told, for those who count what a
// run takes (benchmarks/arm_instructions.py).
//
//   plan_runs FILE SET COUNT      prints the kinds of the steps
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "recorded.h"

namespace {

using calib8::engine::Engine;
using recorded::Bytes;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::printf("plan_runs FILE SET COUNT\n");
    return 2;
  }
  recorded::Reader reader(argv[1]);
  const recorded::Plan plan = reader.plan();
  const calib8::engine::Isa& isa = calib8::engine::isa_by_name(argv[2]);
  Engine engine(plan.description, isa, 1, false);
  const auto context = engine.new_context();
  std::vector<Bytes> inputs = plan.inputs, outputs = plan.outputs;
  std::vector<uint8_t*> ports;
  for (Bytes& input : inputs) ports.push_back(input.data());
  for (Bytes& output : outputs) ports.push_back(output.data());
  for (int run = std::atoi(argv[3]); run > 0; --run) {
    engine.run(*context, 0, static_cast<int64_t>(plan.description.steps.size()), ports, nullptr);
  }
  for (const auto& step : plan.description.steps) std::printf("%s\n", step.kind.c_str());
  return outputs == plan.outputs ? 0 : 1;
}
