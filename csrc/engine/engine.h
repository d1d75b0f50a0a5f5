// A plan made ready: its steps decoded, their kernels chosen, its threads waiting.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "../platform.h"
#include "kernels.h"
#include "spin_pool.h"

namespace calib8::engine {

// What a plan says, before it is made ready.
struct Description {
  struct Row {
    std::string kind;
    std::vector<int64_t> fields;
  };
  std::vector<Row> steps;
  const uint8_t* constants = nullptr;  // 64-byte aligned, 64 readable bytes behind them; outlives the engine
  int64_t constant_bytes = 0, arena_bytes = 0;
  std::vector<int64_t> port_bytes;  // inputs, then outputs
};

class Engine;

// Memory of one run at a time.
class Context {
 public:
  Context(const Engine& owner, int64_t arena_bytes, int64_t scratch_bytes, int threads);
  const Engine& owner() const { return owner_; }
  uint8_t* arena() { return arena_.get(); }
  uint8_t* scratch(int part) { return scratch_.get() + part * scratch_stride_; }
  int64_t scratch_apart() const { return scratch_stride_; }

  // True when nobody else runs with this memory; then `leave` must follow.
  bool try_enter() { return !busy_.exchange(true, std::memory_order_acquire); }
  void leave() { busy_.store(false, std::memory_order_release); }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { platform::free_aligned(memory); }
  };
  using Block = std::unique_ptr<uint8_t, Free>;
  static Block allocate(int64_t bytes);

  const Engine& owner_;
  std::atomic<bool> busy_{false};
  Block arena_, scratch_;
  int64_t scratch_stride_;
};

class Engine {
 public:
  // Throws std::invalid_argument when the description contradicts itself, asks for more memory than the
  // machine has, or has steps that would leave their buffers.
  Engine(const Description& description, const Isa& isa, int threads, bool pin);

  const Isa& isa() const { return isa_; }
  int threads() const { return pool_.threads(); }
  // Name of the set that the kernel of a step comes from.
  const char* origin(int64_t step) const { return steps_[static_cast<size_t>(step)].origin; }
  // Whether the threads share a step.
  bool shared(int64_t step) const { return steps_[static_cast<size_t>(step)].shared; }
  // Whether its kernel may add two products in 16 bits (pair_sums.h).
  bool pair_sums(int64_t step) const { return steps_[static_cast<size_t>(step)].pair_sums_fit; }
  // The lowest number of a port that a step writes: inputs come before it.
  int64_t first_written_port() const { return first_written_port_; }
  // Whether the steps write as much into a port as it has bytes: of an output, else, what was in the memory
  // before would be told. Those that something else fills are the caller's business.
  bool fills(size_t port) const { return filled_[port]; }
  // Memory that each thread of a run needs beside the arena.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  std::unique_ptr<Context> new_context() const;

  // Steps first … last−1 with the ports' buffers. Safe to call from several threads with a context each: the
  // first one gets the threads of the pool, others work alone. With `nanoseconds`, time per step is added
  // there. Throws std::invalid_argument for a context of another engine or one that is in use, and
  // LengthError for sequences that a layer cannot read: outputs hold anything then.
  void run(Context& context, int64_t first, int64_t last, const std::vector<uint8_t*>& ports,
           int64_t* nanoseconds);

 private:
  struct Decoded {
    Kernel kernel;
    const char* origin;
    std::shared_ptr<const SplitRows> split;  // what kernels find in Memory::split
    bool pair_sums_fit;                      // and in Memory::pair_sums_fit
    std::shared_ptr<const void> step;
    bool shared;               // by all threads; else the caller does it alone (step_cost.h)
    bool goes_with_next;       // a border of what the next step writes: threads need not meet in between
    const Recurrent* checked;  // a layer whose lengths every run looks at, else null; `step` keeps it
  };
  struct Job;
  static void work(void* job, int part);

  const Isa& isa_;
  std::vector<Decoded> steps_;
  std::vector<bool> filled_;  // port by port
  const uint8_t* constants_;
  int64_t arena_bytes_, scratch_bytes_ = 0, first_written_port_ = 0;
  SpinPool pool_;
};

}  // namespace calib8::engine
