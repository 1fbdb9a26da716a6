// How far each stream of a device has come, and the first error: what streams and callers wait on. Private to
// runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_PROGRESS_H
#define MT_RUNTIME_DEVICE_COMMON_PROGRESS_H

#include "runtime/device/Device.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace mt::device {

class Progress {
public:
  explicit Progress(size_t streams) : done(streams) {}

  /// `count` commands of the stream are done.
  void complete(uint32_t stream, uint64_t count);
  /// Keeps the first error.
  void stop(Status failure);
  bool stopped() const { return halted.load(std::memory_order_acquire); }
  /// The error, or success.
  Status failure() const;
  /// Returns when the event has happened, or, unless `regardless`, when the device has stopped.
  void await(Event event, bool regardless) const;

private:
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::vector<uint64_t> done;
  std::atomic<bool> halted = false;
  Status first;
};

} // namespace mt::device
#endif
