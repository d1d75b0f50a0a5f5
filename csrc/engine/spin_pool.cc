#include "spin_pool.h"

#include <unistd.h>

#include <chrono>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace calib8::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kSpin{200};
constexpr int kSpinsPerLook = 64;  // pauses between two looks at the clock

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void pin_to_processor(int index) {
#if defined(__linux__)
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&one);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && seen++ == index % CPU_COUNT(&allowed)) CPU_SET(cpu, &one);
  }
  (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
#else
  (void)index;
#endif
}

}  // namespace

SpinPool::SpinPool(int threads, bool pin) : threads_(threads), pin_(pin) {}

SpinPool::~SpinPool() {
  if (owner_process_ != getpid()) {
    for (std::thread& worker : workers_) worker.detach();  // a forked child has no such threads
    return;
  }
  {
    const std::lock_guard<std::mutex> lock(sleep_);
    stop_.store(true);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool SpinPool::try_acquire() {
  if (threads_ == 1 || !owner_.try_lock()) return false;
  if (workers_.empty()) start_workers();
  if (owner_process_ == getpid()) return true;
  owner_.unlock();
  return false;
}

void SpinPool::release() { owner_.unlock(); }

void SpinPool::start_workers() {
  owner_process_ = getpid();
  for (int part = 1; part < threads_; ++part) {
    workers_.emplace_back([this, part] { wait_for_work(part, pin_); });
  }
}

void SpinPool::run(Work work, void* context) {
  work_ = work;
  context_ = context;
  unfinished_.store(threads_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1);
  if (sleepers_.load() > 0) {
    const std::lock_guard<std::mutex> lock(sleep_);
    wake_.notify_all();
  }
  work(context, 0);
  int spins = 0;
  while (unfinished_.load(std::memory_order_acquire) > 0) {
    pause();
    if (++spins % (kSpinsPerLook * 64) == 0) std::this_thread::yield();
  }
}

void SpinPool::wait_for_work(int part, bool pin) {
  if (pin) pin_to_processor(part);
  uint64_t seen = 0;
  for (;;) {
    const auto start = Clock::now();
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen) {
      pause();
      if (++spins % kSpinsPerLook != 0 || Clock::now() - start < kSpin) continue;
      std::unique_lock<std::mutex> lock(sleep_);
      sleepers_.fetch_add(1);
      wake_.wait(lock, [this, seen] { return generation_.load() != seen; });
      sleepers_.fetch_sub(1);
    }
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    work_(context_, part);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace calib8::engine
