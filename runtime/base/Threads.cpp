#include "runtime/base/Threads.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace mt {

uint64_t coreCount() { return std::max(1u, std::thread::hardware_concurrency()); }

void onThreads(uint64_t threads, const std::function<void()> &work) {
  std::vector<std::jthread> others; // joined on the way out
  try {
    while (others.size() + 1 < threads)
      others.emplace_back(work);
  } catch (const std::system_error &) {
  }
  work();
}

} // namespace mt
