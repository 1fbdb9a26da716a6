#include "runtime/device/common/Worker.h"

#include <system_error>

namespace mt::device {

Result<std::unique_ptr<Worker>> Worker::start(uint32_t stream, Progress &progress) {
  std::unique_ptr<Worker> worker(new Worker(stream, progress));
  try {
    worker->thread = std::jthread([raw = worker.get()] { raw->work(); });
  } catch (const std::system_error &error) {
    return fail("no thread for stream {}: {}: stop what else runs here, or raise the limit of threads (ulimit -u, pids.max of "
                "the control group)",
                stream, error.code().message());
  }
  return worker;
}

Worker::~Worker() {
  {
    std::lock_guard lock(mutex);
    closing = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void Worker::issue(std::function<Status()> task, bool mayWait) {
  bool wake = false;
  {
    std::unique_lock lock(mutex);
    if (mayWait && tasks.size() >= kWindow) {
      ++waiting;
      changed.wait(lock, [&] { return tasks.size() < kWindow; });
      --waiting;
    }
    tasks.push_back(std::move(task));
    ++issued;
    wake = sleeping;
  }
  if (wake)
    changed.notify_all();
}

/// The next task, or none when the worker is to end.
std::function<Status()> Worker::take() {
  std::unique_lock lock(mutex);
  sleeping = true;
  changed.wait(lock, [&] { return !tasks.empty() || closing; });
  sleeping = false;
  if (tasks.empty())
    return nullptr;
  std::function<Status()> task = std::move(tasks.front());
  tasks.pop_front();
  if (waiting > 0)
    changed.notify_all();
  return task;
}

void Worker::work() {
  uint64_t count = 0;
  while (std::function<Status()> task = take()) {
    if (!progress.stopped())
      if (Status status = task(); !status.ok())
        progress.stop(std::move(status));
    progress.complete(stream, ++count);
  }
}

} // namespace mt::device
