// Mutexes that nobody holds in a forked child, and how to know that one is there.
//
// A child has the memory of its parent, but only the thread that forked: what another thread locked would
// stay locked for ever, and nobody else's work goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

namespace calib8 {

// How many forks lie between the first process and this one, counted from 1: another number, another process.
int64_t fork_count();

// A mutex for std::lock_guard. In a child it is free; what it protects is as the parent's threads left it,
// which must be in order, or of no use to anybody who was not there before.
class ForkMutex {
 public:
  ForkMutex() { mutex_.emplace(); }
  ForkMutex(const ForkMutex&) = delete;
  ForkMutex& operator=(const ForkMutex&) = delete;
  void lock();
  void unlock() { mutex_->unlock(); }

 private:
  std::atomic<int64_t> process_{fork_count()};  // whose mutex it is; negative while it makes it anew
  std::optional<std::mutex> mutex_;
};

}  // namespace calib8
