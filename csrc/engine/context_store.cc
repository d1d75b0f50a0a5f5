// A list of idle memory under a mutex.
#include "context_store.h"

#include <new>

namespace calib8::engine {

// Another thread of the parent may have been changing it when the process forked: a child begins anew.
ContextStore::Kept& ContextStore::kept() {
  if (process_ != fork_count()) {
    (void)kept_.release();
    kept_ = std::make_unique<Kept>();
    process_ = fork_count();
  }
  return *kept_;
}

std::unique_ptr<Context> ContextStore::take() {
  {
    const std::lock_guard<ForkMutex> lock(mutex_);
    std::vector<std::unique_ptr<Context>>& idle = kept().idle;
    if (!idle.empty()) {
      std::unique_ptr<Context> context = std::move(idle.back());
      idle.pop_back();
      return context;
    }
  }
  std::unique_ptr<Context> context = engine_.new_context();
  const std::lock_guard<ForkMutex> lock(mutex_);
  ++kept().made;
  return context;
}

void ContextStore::give(std::unique_ptr<Context> context) {
  if (context == nullptr) return;
  const std::lock_guard<ForkMutex> lock(mutex_);
  Kept& all = kept();
  try {
    all.idle.push_back(std::move(context));
  } catch (const std::bad_alloc&) {  // the list cannot grow: one less is kept
    --all.made;
  }
}

int64_t ContextStore::count() {
  const std::lock_guard<ForkMutex> lock(mutex_);
  return kept().made;
}

}  // namespace calib8::engine
