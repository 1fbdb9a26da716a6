// One stream of a device: a thread that executes tasks in the order of issue and reports each to the progress. For a
// stream of a GPU a task only enqueues there. Knows nothing of what tasks do. Private to runtime/device.
#ifndef MT_RUNTIME_DEVICE_COMMON_WORKER_H
#define MT_RUNTIME_DEVICE_COMMON_WORKER_H

#include "runtime/device/common/Progress.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace mt::device {

class Worker {
public:
  /// Tasks that may be under way before issuing another one waits for room.
  static constexpr size_t kWindow = 1 << 16;

  /// Errors: the system gives no more threads.
  static Result<std::unique_ptr<Worker>> start(uint32_t stream, Progress &progress);
  /// Finishes what was issued; the device has stopped or is done.
  ~Worker();

  /// Appends a task; its errors stop the device. Once the device has stopped, tasks are passed over. `mayWait`: the
  /// caller waits while the window is full. For one thread, the issuing one.
  void issue(std::function<Status()> task, bool mayWait);
  /// What comes before the next task, as a part of it: waits, which are too small to be tasks of their own.
  void before(std::function<Status()> part) { parts.push_back(std::move(part)); }
  /// The number that the next task will have.
  uint64_t next() const { return issued + 1; }
  /// Completion of everything issued so far. For the issuing thread.
  Event last();

private:
  Worker(uint32_t stream, Progress &progress) : stream(stream), progress(progress) {}

  using Task = std::vector<std::function<Status()>>; ///< one part after another
  const uint32_t stream;
  Progress &progress;
  uint64_t issued = 0;
  Task parts; ///< of the next task
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Task> tasks;
  size_t left = 0;                         ///< tasks that are not done
  bool closing = false, sleeping = false; ///< sleeping: for want of tasks
  size_t waiting = 0;                      ///< callers, for want of room
  std::jthread thread;

  void work();
  bool take(std::vector<Task> &into);
  Status run(const Task &task);
};

} // namespace mt::device
#endif
