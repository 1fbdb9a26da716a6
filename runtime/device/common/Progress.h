// How far each stream of a device has come, and the first error: what streams and callers wait on. Private to
// runtime/device.
//
// Most waits are over when they begin, or nearly: who waits looks a while before it sleeps, and who completes a command wakes
// only those that sleep for its stream.
#ifndef MT_RUNTIME_DEVICE_COMMON_PROGRESS_H
#define MT_RUNTIME_DEVICE_COMMON_PROGRESS_H

#include "runtime/device/Device.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace mt::device {

class Progress {
public:
  explicit Progress(size_t streams) : streams(streams) {}

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
  struct Stream {
    std::atomic<uint64_t> done = 0;
    mutable std::atomic<uint32_t> sleepers = 0;
    mutable std::mutex mutex;
    mutable std::condition_variable changed;
  };
  std::deque<Stream> streams;
  std::atomic<bool> halted = false;
  mutable std::mutex mutex; ///< of the error
  Status first;

  static void wake(Stream &stream);
  bool isOver(const Event &event, bool regardless) const {
    return streams[event.stream].done.load() >= event.count || (!regardless && halted.load());
  }
};

} // namespace mt::device
#endif
