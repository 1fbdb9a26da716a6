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
  parts.push_back(std::move(task));
  bool wake = false;
  {
    std::unique_lock lock(mutex);
    if (mayWait && left >= kWindow) {
      ++waiting;
      changed.wait(lock, [&] { return left < kWindow; });
      --waiting;
    }
    tasks.push_back(std::move(parts));
    ++left;
    ++issued;
    wake = sleeping;
  }
  parts.clear();
  if (wake)
    changed.notify_all();
}

Event Worker::last() {
  if (!parts.empty())
    issue([] { return Status(); }, false);
  return {stream, issued};
}

/// All tasks that there are, in place of those of `into`, which are done; none when the worker is to end.
bool Worker::take(std::vector<Task> &into) {
  std::unique_lock lock(mutex);
  left -= into.size();
  into.clear();
  if (waiting > 0)
    changed.notify_all();
  sleeping = true;
  changed.wait(lock, [&] { return !tasks.empty() || closing; });
  sleeping = false;
  into.swap(tasks);
  return !into.empty();
}

Status Worker::run(const Task &task) {
  for (const std::function<Status()> &part : task)
    if (!progress.stopped())
      MT_TRY(part());
  return {};
}

void Worker::work() {
  uint64_t count = 0;
  for (std::vector<Task> mine; take(mine);)
    for (const Task &task : mine) {
      if (Status status = run(task); !status.ok())
        progress.stop(std::move(status));
      progress.complete(stream, ++count);
    }
}

} // namespace mt::device
