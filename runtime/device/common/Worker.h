// One stream of a device: a thread that executes tasks in the order of issue and reports each to the progress. For a
// stream of a GPU a task only enqueues there. Knows nothing of what tasks do. Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_WORKER_H
#define MT_RUNTIME_DEVICE_COMMON_WORKER_H

#include "runtime/device/common/Progress.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace mt::device {

class Worker {
public:
  /// Commands that may lie in the queue before issuing another one waits for room.
  static constexpr size_t kWindow = 1 << 16;

  /// Errors: the system gives no more threads.
  static Result<std::unique_ptr<Worker>> start(uint32_t stream, Progress &progress);
  /// Finishes what was issued; the device has stopped or is done.
  ~Worker();

  /// Appends a task; its errors stop the device. Once the device has stopped, tasks are passed over. `mayWait`: the
  /// caller waits while the window is full.
  void issue(std::function<Status()> task, bool mayWait);
  /// Completion of everything issued so far. For the issuing thread.
  Event last() const { return {stream, issued}; }

private:
  Worker(uint32_t stream, Progress &progress) : stream(stream), progress(progress) {}

  const uint32_t stream;
  Progress &progress;
  uint64_t issued = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<Status()>> tasks;
  bool closing = false, sleeping = false; ///< sleeping: for want of tasks
  size_t waiting = 0;                      ///< callers, for want of room
  std::jthread thread;

  void work();
  std::function<Status()> take();
};

} // namespace mt::device
#endif
