// Memory of runs that is idle now: handed out, one piece per run, and taken back for later ones.
#pragma once

#include <memory>
#include <vector>

#include "../forks.h"
#include "engine.h"

namespace calib8::engine {

class ContextStore {
 public:
  explicit ContextStore(const Engine& engine) : engine_(engine) {}

  // Throws std::bad_alloc where there is no memory.
  std::unique_ptr<Context> take();
  void give(std::unique_ptr<Context> context);

  // How many there are, idle or not.
  int64_t count();

 private:
  struct Kept {
    std::vector<std::unique_ptr<Context>> idle;
    int64_t made = 0;
  };
  Kept& kept();

  const Engine& engine_;
  ForkMutex mutex_;  // of all that follows
  std::unique_ptr<Kept> kept_ = std::make_unique<Kept>();
  int64_t process_ = fork_count();
};

// One of them for the time of a scope.
class Borrowed {
 public:
  explicit Borrowed(ContextStore& store) : store_(store), context_(store.take()) {}
  ~Borrowed() { store_.give(std::move(context_)); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  Context& context() { return *context_; }

  // In a forked child: the memory may be in use for ever by a thread that is not there.
  void renew() {
    (void)context_.release();
    context_ = store_.take();
  }

 private:
  ContextStore& store_;
  std::unique_ptr<Context> context_;
};

}  // namespace calib8::engine
