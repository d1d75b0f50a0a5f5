// Counts forks and renews mutexes after them.
#include "forks.h"

#include <new>
#include <thread>

#include "platform.h"

namespace calib8 {
namespace {

std::atomic<int64_t> forks{1};

[[maybe_unused]] const bool kRegistered = (platform::on_fork([] { forks.fetch_add(1); }), true);

}  // namespace

int64_t fork_count() { return forks.load(std::memory_order_relaxed); }

void ForkMutex::lock() {
  const int64_t here = fork_count();
  for (int64_t found = process_.load(std::memory_order_acquire); found != here;
       found = process_.load(std::memory_order_acquire)) {
    if (found != -here && process_.compare_exchange_strong(found, -here)) {
      new (&mutex_)
          std::optional<std::mutex>(std::in_place);  // the old one may be locked: it is not destroyed
      process_.store(here, std::memory_order_release);
    } else {
      std::this_thread::yield();
    }
  }
  mutex_->lock();
}

}  // namespace calib8
