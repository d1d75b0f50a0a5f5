// Threads that wait for the next step of a run: they spin for a while, then sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace calib8::engine {

class SpinPool {
 public:
  using Work = void (*)(void* context, int part);

  // `threads` counts the caller too. With `pin`, worker i stays on processor i of those the process may use.
  SpinPool(int threads, bool pin);
  ~SpinPool();
  SpinPool(const SpinPool&) = delete;
  SpinPool& operator=(const SpinPool&) = delete;

  int threads() const { return threads_; }

  // True when this caller now owns the pool; it must then call `release`.
  bool try_acquire();
  void release();

  // work(context, part) for part 0 … threads − 1, part 0 on the calling thread, which owns the pool.
  void run(Work work, void* context);

 private:
  void wait_for_work(int part, bool pin);
  void start_workers();

  const int threads_;
  const bool pin_;
  int64_t owner_process_ = 0;
  std::mutex owner_;
  std::vector<std::thread> workers_;
  alignas(64) std::atomic<uint64_t> generation_{0};
  alignas(64) std::atomic<int> unfinished_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  Work work_ = nullptr;
  void* context_ = nullptr;
  std::mutex sleep_;
  std::condition_variable wake_;
};

}  // namespace calib8::engine
