// Runs recorded plans on every instruction set and several numbers of threads: outputs as NumPy gave them,
// and every byte of the arena as the plain loops leave it, so that nothing was written that is not the
// plan's.
//
//   engine_check FILE…      prints what it did; exit code 1 at the first difference
//
// Meant to be built with sanitizers (scripts/check-full); inputs and outputs are exactly as long as they are.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "recorded.h"
#if defined(__x86_64__)
#include "evex_set.h"
#endif

#if defined(__x86_64__)
namespace calib8_evex {  // what the sources of that set ask the core for, under the name that they have there

calib8::Features features();
calib8::Features features() { return calib8::features(); }

}  // namespace calib8_evex
#endif

namespace {

using calib8::engine::Context;
using calib8::engine::Engine;
using calib8::engine::Isa;
using recorded::Bytes;
using recorded::Plan;

#if defined(__x86_64__)
void fill_evex(calib8::engine::KernelTable& table) {
  void* kernels[calib8::engine::kStepKinds] = {};
  calib8_evex_kernels(kernels, table.size());
  for (size_t kind = 0; kind < table.size(); ++kind) {
    if (kernels[kind] != nullptr) table[kind] = reinterpret_cast<calib8::engine::Kernel>(kernels[kind]);
  }
}

const Isa kEvex{"avxvnni encoded for AVX-512", calib8::kAvx512vl | calib8::kAvx512vnni, fill_evex, "avx2"};
#endif

std::vector<const Isa*> sets() {
  std::vector<const Isa*> list = calib8::engine::available_isas(calib8::features());
  std::reverse(list.begin(), list.end());  // the plain loops first
#if defined(__x86_64__)
  if ((calib8::features() & kEvex.needs) == kEvex.needs) list.push_back(&kEvex);
#endif
  return list;
}

struct Result {
  std::vector<Bytes> outputs;
  Bytes arena;
};

// The arena begins with a pattern, not with zeros: what a plan forgets to write is seen. The second run finds
// what the first one left.
Result run(const Plan& plan, const Isa& isa, int threads) {
  Engine engine(plan.description, isa, threads, false);
  const auto context = engine.new_context();
  const auto size = static_cast<size_t>(plan.description.arena_bytes);
  for (size_t i = 0; i < size; ++i) context->arena()[i] = static_cast<uint8_t>(i * 37 + 11);
  std::vector<Bytes> inputs = plan.inputs, outputs = plan.outputs;
  std::vector<uint8_t*> ports;
  for (Bytes& input : inputs) ports.push_back(input.data());
  for (Bytes& output : outputs) {
    std::fill(output.begin(), output.end(), uint8_t{0xA5});
    ports.push_back(output.data());
  }
  for (int time = 0; time < 2; ++time) {
    engine.run(*context, 0, static_cast<int64_t>(plan.description.steps.size()), ports, nullptr);
  }
  if (inputs != plan.inputs) std::printf("%s writes into its inputs\n", isa.name), std::exit(1);
  return {outputs, Bytes(context->arena(), context->arena() + size)};
}

std::string kinds(const Plan& plan) {
  std::string text;
  for (const auto& step : plan.description.steps) text += " " + step.kind;
  return text;
}

bool agrees(const Plan& plan, long number, const std::vector<const Isa*>& isas) {
  const Result reference = run(plan, *isas.front(), 1);
  for (const Isa* isa : isas) {
    for (const int threads : {1, 2, 3}) {
      const Result result = run(plan, *isa, threads);
      const bool right = result.outputs == plan.outputs, clean = result.arena == reference.arena;
      if (right && clean) continue;
      std::printf("plan %ld (%s ) differs on %s with %d threads: %s\n", number, kinds(plan).c_str(),
                  isa->name, threads, right ? "bytes of the arena" : "outputs");
      return false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<const Isa*> isas = sets();
  long plans = 0;
  for (int file = 1; file < argc; ++file) {
    recorded::Reader reader(argv[file]);
    for (; !reader.at_end(); ++plans) {
      if (!agrees(reader.plan(), plans, isas)) return 1;
    }
  }
  if (plans == 0) {
    std::printf("there are no plans\n");
    return 1;
  }
  std::string names;
  for (const Isa* isa : isas) names += std::string(names.empty() ? "" : ", ") + isa->name;
  std::printf("%ld plans, %s, 1 to 3 threads: no difference\n", plans, names.c_str());
  return 0;
}
