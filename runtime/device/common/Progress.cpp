#include "runtime/device/common/Progress.h"

namespace mt::device {

void Progress::complete(uint32_t stream, uint64_t count) {
  {
    std::lock_guard lock(mutex);
    done[stream] = count;
  }
  changed.notify_all();
}

void Progress::stop(Status failure) {
  {
    std::lock_guard lock(mutex);
    if (halted)
      return;
    first = std::move(failure);
    halted.store(true, std::memory_order_release);
  }
  changed.notify_all();
}

Status Progress::failure() const {
  if (!stopped())
    return {};
  std::lock_guard lock(mutex);
  return first;
}

void Progress::await(Event event, bool regardless) const {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return done[event.stream] >= event.count || (halted && !regardless); });
}

} // namespace mt::device
