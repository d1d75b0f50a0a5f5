// Threads that wait for the next step of a run: they spin for a while, then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace calib8::engine {

constexpr int kMostThreads = 256;

class SpinPool {
 public:
  using Work = void (*)(void* context, int part);

  // `threads` counts the caller too. With `pin`, worker i stays on processor i of those the process may use.
  SpinPool(int threads, bool pin);
  ~SpinPool();
  SpinPool(const SpinPool&) = delete;
  SpinPool& operator=(const SpinPool&) = delete;

  int threads() const { return threads_; }

  // True when this caller now owns the pool; it must then call `release`. Workers start here, at first use
  // and once more in a forked child, which has none; where the system gives no threads the answer is false
  // from then on.
  bool try_acquire();
  void release();

  // work(context, part) for part 0 … threads − 1, part 0 on the calling thread, which owns the pool, and what
  // no worker has begun by then too. Work must not throw.
  void run(Work work, void* context);

 private:
  class Crew;

  const int threads_;
  const bool pin_;
  std::atomic<int64_t> owner_{0};  // process of the caller that owns the pool, 0 for none
  int64_t crew_process_ = 0;       // where the crew lives; read and written by the owner
  std::unique_ptr<Crew> crew_;
};

}  // namespace calib8::engine
