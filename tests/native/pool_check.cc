// Many short runs of recorded plans from several threads at once: on one engine, and on one each.
//
//   pool_check FILE RUNS      prints what it did; exit code 1 at the first wrong output
//
// Meant for the thread sanitizer (scripts/check-full). Some callers find the pool taken and work alone;
// pauses now and then let the workers fall asleep.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "recorded.h"

namespace {

using calib8::engine::Engine;
using recorded::Bytes;
using recorded::Plan;

bool run_once(Engine& engine, const Plan& plan) {
  const auto context = engine.new_context();
  std::vector<Bytes> inputs = plan.inputs, outputs = plan.outputs;
  std::vector<uint8_t*> ports;
  for (Bytes& input : inputs) ports.push_back(input.data());
  for (Bytes& output : outputs) {
    output.assign(output.size(), 0xA5);
    ports.push_back(output.data());
  }
  engine.run(*context, 0, static_cast<int64_t>(plan.description.steps.size()), ports, nullptr);
  return outputs == plan.outputs;
}

// Callers on the shared engine, and on an engine of their own that dies in between.
long wrong_runs(const Plan& plan, int runs) {
  const calib8::engine::Isa& isa = *calib8::engine::available_isas(calib8::features()).front();
  Engine shared(plan.description, isa, 3, false);
  std::atomic<long> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int number = 0; number < runs; ++number) {
        if (number % 16 == caller) std::this_thread::sleep_for(std::chrono::microseconds(300));
        if (!run_once(shared, plan)) ++wrong;
        if (number % 4 != 0) continue;
        Engine own(plan.description, isa, 2, caller % 2 == 0);
        for (int time = 0; time < 3; ++time) wrong += run_once(own, plan) ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  recorded::Reader reader(argv[1]);
  const int runs = std::atoi(argv[2]);
  long plans = 0;
  for (; !reader.at_end() && plans < 40; ++plans) {
    if (const long wrong = wrong_runs(reader.plan(), runs); wrong != 0) {
      std::printf("%ld wrong runs of plan %ld\n", wrong, plans);
      return 1;
    }
  }
  std::printf("%ld plans, 4 callers, %d rounds each: all right\n", plans, runs);
  return plans == 0 ? 1 : 0;
}
