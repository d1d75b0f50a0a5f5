// A plan that is open, and runs of it: what the handles of include/calib8.h point to.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../../include/calib8.h"
#include "../engine/context_store.h"
#include "../plan/file.h"
#include "../plan/plan.h"

namespace calib8::c_library {

// Arrays of the caller for one run, in the order of the inputs and outputs that are no states.
struct Arrays {
  const calib8_in* inputs;
  size_t input_count;
  const calib8_out* outputs;
  size_t output_count;
};

// Does not change once it is made, but for memory of runs that is kept.
class Model {
 public:
  // `isa` may be null. Throws Fault, and what read_plan, the engine and the system throw.
  Model(plan::Content content, const char* isa, int threads, bool pin);

  const plan::Plan& plan() const { return plan_; }
  const std::vector<calib8_tensor>& inputs() const { return inputs_; }
  const std::vector<calib8_tensor>& outputs() const { return outputs_; }
  const char* isa() const { return engine_->isa().name; }
  int threads() const { return engine_->threads(); }
  size_t run_bytes() const;
  engine::ContextStore& contexts() const { return *contexts_; }

  // One run in memory that is idle. Throws Fault where the model carries a state.
  void run(const Arrays& arrays) const;
  // In memory of the caller; `ports` has an address for every input and output of the plan.
  void run(engine::Context& context, const std::vector<uint8_t*>& ports) const;

  // Puts the arrays to the ports that are no states, the others stay. Throws Fault unless all of them fit.
  void take(const Arrays& arrays, std::vector<uint8_t*>& ports) const;

 private:
  plan::Content content_;
  plan::Plan plan_;
  std::vector<size_t> input_ports_, output_ports_;  // of what the caller gives
  std::vector<calib8_tensor> inputs_, outputs_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::ContextStore> contexts_;
  int64_t steps_;
};

// Runs one after the other that carry the state of a model.
class Stream {
 public:
  explicit Stream(std::shared_ptr<const Model> model);

  // Throws Fault, also where another thread is inside.
  void run(const Arrays& arrays);
  void reset();

 private:
  // Where a state was and where the next one goes.
  struct Carried {
    std::vector<uint8_t> now, next;
  };
  class Inside;
  void begin();

  const std::shared_ptr<const Model> model_;
  engine::Borrowed borrowed_;
  std::vector<Carried> states_;
  std::vector<uint8_t*> ports_;
  std::atomic<int64_t> process_inside_{0};  // process of the caller that is inside, 0 for none
  int64_t process_ = fork_count();
};

}  // namespace calib8::c_library
