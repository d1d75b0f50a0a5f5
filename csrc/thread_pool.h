// Threads that stay, for work that comes in short bursts.
#pragma once

#include <functional>

namespace calib8 {

// Calls work(0) … work(parts − 1), each once, on the calling thread and up to parts − 1 others, and returns
// when all have ended. `work` must not throw. Where no thread can be started the caller does it all.
void run_parts(int parts, const std::function<void(int)>& work);

}  // namespace calib8
