// Static shares for a few threads: a counter tells them to begin, another one when all have ended.
//
// Each share has a thread that is meant for it, but whoever claims it first carries it out: a caller that is
// done takes what nobody has begun, so that a worker without a processor holds nobody up.
#include "spin_pool.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "../forks.h"
#include "../platform.h"

namespace calib8::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kSpin{200};
constexpr int kSpinsPerLook = 64;    // pauses between two looks at the clock
constexpr int kSpinsPerYield = 256;  // pauses between two offers of the processor to somebody else

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

// The workers and what they share with their caller.
class SpinPool::Crew {
 public:
  Crew(int threads, bool pin)
      : claims_(static_cast<size_t>(threads)), places_(static_cast<size_t>(threads)), pin_(pin) {
    try {
      for (int part = 1; part < threads; ++part) {
        workers_.emplace_back([this, part] { wait_for_work(part); });
      }
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Crew() { stop(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void run(Work work, void* context) {
    const auto parts = static_cast<int>(claims_.size());
    work_ = work;
    context_ = context;
    unfinished_.store(parts - 1, std::memory_order_relaxed);
    const uint64_t generation = announce();
    work(context, 0);
    for (int part = 1; part < parts; ++part) run_if_free(part, generation);
    int spins = 0;
    while (unfinished_.load(std::memory_order_acquire) > 0) {
      pause();
      if (++spins % kSpinsPerYield == 0) std::this_thread::yield();
    }
  }

 private:
  // Where a worker sleeps; under the lock.
  struct Place {
    bool asleep = false;
    bool held = false;            // off the processor of who wakes it
    platform::Processors before;  // that it could use before
  };

  // A worker counts itself as a sleeper before it looks at the generation for the last time, the caller
  // raises the generation before it looks for sleepers: one of them sees the other.
  uint64_t announce() {
    const uint64_t generation = generation_.fetch_add(1) + 1;
    if (sleepers_.load() > 0) {
      const std::lock_guard<std::mutex> lock(sleep_);
      if (!pin_ && !stop_.load()) send_sleepers_elsewhere();
      wake_.notify_all();
    }
    return generation;
  }

  // Under the lock: who sleeps shall not wake on the processor of this caller.
  void send_sleepers_elsewhere() {
    for (size_t worker = 0; worker < workers_.size(); ++worker) {
      Place& place = places_[worker + 1];
      if (!place.asleep || place.held) continue;  // it has not woken since it was sent before
      place.before = platform::keep_off_mine(workers_[worker]);
      place.held = true;
    }
  }

  // A worker that comes late finds its share claimed for this generation, or for a later one.
  void run_if_free(int part, uint64_t generation) {
    std::atomic<uint64_t>& claim = claims_[static_cast<size_t>(part)].generation;
    uint64_t last = claim.load(std::memory_order_relaxed);
    if (last >= generation || !claim.compare_exchange_strong(last, generation)) return;
    work_(context_, part);
    unfinished_.fetch_sub(1, std::memory_order_release);
  }

  void stop() {
    stop_.store(true);
    announce();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  void wait_for_work(int part) {
    if (pin_) platform::pin_to_processor(part);
    for (uint64_t seen = 0; !stop_.load();) {
      seen = wait_beyond(seen, places_[static_cast<size_t>(part)]);
      if (!stop_.load()) run_if_free(part, seen);
    }
  }

  // The generation that is not `seen` any more.
  uint64_t wait_beyond(uint64_t seen, Place& place) {
    const auto start = Clock::now();
    for (int spins = 1;; ++spins) {
      const uint64_t generation = generation_.load(std::memory_order_acquire);
      if (generation != seen) return generation;
      pause();
      if (spins % kSpinsPerYield == 0) std::this_thread::yield();
      if (spins % kSpinsPerLook != 0 || Clock::now() - start < kSpin) continue;
      sleep(seen, place);
    }
  }

  void sleep(uint64_t seen, Place& place) {
    std::unique_lock<std::mutex> lock(sleep_);
    sleepers_.fetch_add(1);
    place.asleep = true;
    wake_.wait(lock, [this, seen] { return generation_.load() != seen; });
    place.asleep = false;
    sleepers_.fetch_sub(1);
    if (!place.held) return;
    place.held = false;
    const platform::Processors before = place.before;
    lock.unlock();
    platform::use_processors(before);
  }

  struct alignas(64) Claim {
    std::atomic<uint64_t> generation{0};
  };

  std::vector<Claim> claims_;  // by part: the last generation in which somebody took it
  std::vector<Place> places_;  // by part
  const bool pin_;
  alignas(64) std::atomic<uint64_t> generation_{0};
  alignas(64) std::atomic<int> unfinished_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  Work work_ = nullptr;  // of the generation; written before it begins
  void* context_ = nullptr;
  std::mutex sleep_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;  // last: they use all that is above
};

SpinPool::SpinPool(int threads, bool pin) : threads_(threads), pin_(pin) {}

SpinPool::~SpinPool() {
  // A forked child has no workers: to wait for them, or for the sleepers of a condition variable, has no end.
  if (crew_process_ != fork_count()) (void)crew_.release();
}

bool SpinPool::try_acquire() {
  if (threads_ == 1) return false;
  const int64_t process = fork_count();
  int64_t owner = 0;
  // An owner from before a fork does not exist here.
  while (!owner_.compare_exchange_weak(owner, process, std::memory_order_acquire)) {
    if (owner == process) return false;
  }
  if (crew_process_ == process) {
    if (crew_ != nullptr) return true;
    release();  // there were no threads to be had
    return false;
  }
  (void)crew_.release();  // the parent's
  crew_process_ = process;
  try {
    crew_ = std::make_unique<Crew>(threads_, pin_);
    return true;
  } catch (const std::exception&) {
    release();
    return false;
  }
}

void SpinPool::release() { owner_.store(0, std::memory_order_release); }

void SpinPool::run(Work work, void* context) { crew_->run(work, context); }

}  // namespace calib8::engine
