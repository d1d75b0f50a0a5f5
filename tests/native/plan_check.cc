// What the reader of plans makes of files: `plan_check FILE…` prints a line for each.
//
//   ok PROFILE ARENA-BYTES STEPS NUMBERS | NAME TYPE SHAPE SCALES ZERO-POINT | … | state INPUT OUTPUT SUM
//   KIND what it says
#include <cstdio>
#include <numeric>

#include "../../csrc/plan/file.h"
#include "../../csrc/plan/plan.h"

namespace {

using namespace calib8::plan;

const char* const kKinds[] = {"not-a-plan", "newer", "broken", "float-parts"};

void print(const Port& port) {
  std::printf(" | %s %s ", printable(port.name).c_str(), port.type->name);
  for (const int64_t size : port.shape) std::printf("%lld,", static_cast<long long>(size));
  std::printf(" ");
  for (const float scale : port.scales) std::printf("%.9g,", static_cast<double>(scale));
  std::printf(" %lld", static_cast<long long>(port.zero_point));
}

void print(const Plan& plan) {
  size_t numbers = 0;
  for (const auto& row : plan.description.steps) numbers += row.fields.size();
  std::printf("ok %s %lld %zu %zu", plan.profile.c_str(),
              static_cast<long long>(plan.description.arena_bytes), plan.description.steps.size(), numbers);
  for (const Port& port : plan.inputs) print(port);
  for (const Port& port : plan.outputs) print(port);
  for (const State& state : plan.states) {
    const int64_t sum = std::accumulate(state.initial.begin(), state.initial.end(), int64_t{0});
    std::printf(" | state %s %s %lld", printable(plan.inputs[state.input].name).c_str(),
                printable(plan.outputs[state.output].name).c_str(), static_cast<long long>(sum));
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    try {
      const Content content = Content::mapped(argv[i]);
      print(read_plan(content.data(), content.size()));
    } catch (const PlanError& error) {
      std::printf("%s %s\n", kKinds[static_cast<int>(error.fault())], error.what());
    } catch (const FileError& error) {
      std::printf("no-file %s\n", error.what());
    }
  }
  return 0;
}
