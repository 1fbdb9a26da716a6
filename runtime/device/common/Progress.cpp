#include "runtime/device/common/Progress.h"

#include <thread>

namespace mt::device {
namespace {
/// Looks before a wait sleeps: a few microseconds, about what sleeping and waking cost.
constexpr int kLooks = 64;
} // namespace

/// A sleeper is counted before it looks for the last time, and a command is done before sleepers are counted: all in one order
/// of sequential consistency, so that one of the two sees the other.
void Progress::wake(Stream &stream) {
  if (stream.sleepers.load() == 0)
    return;
  { std::lock_guard lock(stream.mutex); }
  stream.changed.notify_all();
}

void Progress::complete(uint32_t stream, uint64_t count) {
  streams[stream].done.store(count);
  wake(streams[stream]);
}

void Progress::stop(Status failure) {
  {
    std::lock_guard lock(mutex);
    if (halted)
      return;
    first = std::move(failure);
    halted.store(true);
  }
  for (Stream &stream : streams)
    wake(stream);
}

Status Progress::failure() const {
  if (!stopped())
    return {};
  std::lock_guard lock(mutex);
  return first;
}

void Progress::await(Event event, bool regardless) const {
  for (int look = 0; look < kLooks; ++look) {
    if (isOver(event, regardless))
      return;
    if (look % 8 == 7)
      std::this_thread::yield();
  }
  const Stream &stream = streams[event.stream];
  std::unique_lock lock(stream.mutex);
  ++stream.sleepers;
  stream.changed.wait(lock, [&] { return isOver(event, regardless); });
  --stream.sleepers;
}

} // namespace mt::device
