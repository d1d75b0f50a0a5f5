// A pool of waiting threads: one job at a time, its parts handed out by a counter.
#include "thread_pool.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "forks.h"

namespace calib8 {
namespace {

class Pool {
 public:
  void run(int parts, const std::function<void(int)>& work) {
    const std::lock_guard<std::mutex> one_job(job_);
    add_workers(parts - 1);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      parts_ = parts;
      next_ = 0;
      unfinished_ = parts;
    }
    wake_.notify_all();
    std::unique_lock<std::mutex> lock(mutex_);
    take_parts(lock);
    done_.wait(lock, [this] { return unfinished_ == 0; });
  }

 private:
  void add_workers(int wanted) {
    for (; workers_ < wanted; ++workers_) {
      try {
        std::thread([this] { wait_for_jobs(); }).detach();
      } catch (const std::system_error&) {
        return;
      }
    }
  }

  void wait_for_jobs() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return next_ < parts_; });
      take_parts(lock);
    }
  }

  void take_parts(std::unique_lock<std::mutex>& lock) {
    while (next_ < parts_) {
      const int part = next_++;
      const std::function<void(int)>& work = *work_;
      lock.unlock();
      work(part);
      lock.lock();
      if (--unfinished_ == 0) done_.notify_one();
    }
  }

  std::mutex job_, mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int)>* work_ = nullptr;
  int parts_ = 0, next_ = 0, unfinished_ = 0;
  int workers_ = 0;
};

// Never destroyed: its threads wait in it until the process ends. A forked child has none of these threads
// and makes a pool of its own.
ForkMutex choosing;
Pool* chosen = nullptr;
int64_t owner = 0;

Pool& pool() {
  const std::lock_guard<ForkMutex> lock(choosing);
  if (owner != fork_count()) {
    chosen = new Pool;
    owner = fork_count();
  }
  return *chosen;
}

}  // namespace

void run_parts(int parts, const std::function<void(int)>& work) {
  if (parts == 1) {
    work(0);
  } else {
    pool().run(parts, work);
  }
}

}  // namespace calib8
