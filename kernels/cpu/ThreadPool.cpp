#include "kernels/cpu/ThreadPool.h"

#include "runtime/base/Threads.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <system_error>

namespace mt::kernels::cpu {
namespace {

constexpr size_t kAlignment = 64;

struct Buffer {
  std::byte *data = nullptr;
  size_t size = 0;
  void free() {
    if (data)
      ::operator delete[](data, std::align_val_t(kAlignment));
  }
  std::byte *atLeast(size_t bytes) {
    if (size < bytes) {
      free();
      data = nullptr;
      data = static_cast<std::byte *>(::operator new[](bytes, std::align_val_t(kAlignment)));
      size = bytes;
    }
    return data;
  }
  ~Buffer() { free(); }
};

/// A thread's part of what a pool has lent.
struct Part {
  uint64_t loan = 0;
  std::byte *data = nullptr;
  size_t size = 0;
};
thread_local Part part, sharedPart;

} // namespace

void ThreadPool::lendScratch(std::byte *memory, size_t each, int callers, size_t shared) {
  static std::atomic<uint64_t> loans = 0;
  loan = ++loans;
  lent = memory;
  lentEach = each, lentShared = shared;
  lentParts = threads() - 1 + callers, lentCallers = callers;
}

/// One of `most` parts, `each` bytes apart, unless the thread has one of this loan.
static void take(Part &part, uint64_t loan, std::atomic<int> &taken, int most, std::byte *first, size_t each) {
  if (part.loan == loan)
    return;
  part = {loan};
  if (loan == 0)
    return;
  if (int mine = taken.fetch_add(1); mine < most)
    part = {loan, first + static_cast<size_t>(mine) * each, each};
}

void ThreadPool::takeLent() { take(part, loan, takenParts, lentParts, lent, lentEach); }

std::byte *ThreadPool::scratch(size_t bytes) {
  if (bytes <= part.size)
    return part.data;
  thread_local Buffer buffer;
  return buffer.atLeast(bytes);
}

std::byte *ThreadPool::sharedScratch(size_t bytes) {
  take(sharedPart, loan, takenShared, lentCallers, lent + static_cast<size_t>(lentParts) * lentEach, lentShared);
  if (bytes <= sharedPart.size)
    return sharedPart.data;
  thread_local Buffer buffer;
  return buffer.atLeast(bytes);
}

ThreadPool::ThreadPool(int threads) : spins(static_cast<uint64_t>(std::max(threads, 1)) <= coreCount()) {
  workers.reserve(static_cast<size_t>(std::max(threads, 1)));
  try {
    while (this->threads() < threads)
      workers.emplace_back([this] { help(); });
  } catch (const std::system_error &) { // fewer do the same work
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  opened.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::Loop::work() {
  for (int64_t chunk = next.fetch_add(1); chunk < chunks; chunk = next.fetch_add(1))
    function(context, chunk);
}

void ThreadPool::runRecorded(int64_t chunks, Function function, const void *context) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> &seconds = recorded->emplace_back(static_cast<size_t>(chunks));
  Clock::time_point begin = Clock::now();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    function(context, chunk);
    const Clock::time_point end = Clock::now();
    seconds[static_cast<size_t>(chunk)] = std::chrono::duration<double>(end - begin).count();
    begin = end;
  }
}

void ThreadPool::run(int64_t chunks, Function function, const void *context) {
  takeLent();
  if (recorded)
    return runRecorded(chunks, function, context);
  Loop loop{function, context, chunks};
  if (chunks <= 1 || workers.empty())
    return loop.work();
  {
    std::lock_guard lock(mutex);
    loops.push_back(&loop);
    announced.fetch_add(1, std::memory_order_relaxed);
  }
  chunks == 2 ? opened.notify_one() : opened.notify_all();
  loop.work();
  std::unique_lock lock(mutex);
  loops.erase(std::find(loops.begin(), loops.end(), &loop));
  left.wait(lock, [&] { return loop.helpers == 0; });
}

ThreadPool::Loop *ThreadPool::openLoop() {
  auto found = std::ranges::find_if(loops, [](const Loop *loop) { return loop->next.load() < loop->chunks; });
  return found == loops.end() ? nullptr : *found;
}

/// Loops come one after another: a worker waits a little for the next before it sleeps, for waking takes longer.
void ThreadPool::awaitLoop(uint64_t seen) const {
  constexpr auto kBriefly = std::chrono::microseconds(10);
  constexpr int kBetween = 32; // looks between two at the clock
  if (!spins)
    return;
  const auto end = std::chrono::steady_clock::now() + kBriefly;
  do
    for (int i = 0; i < kBetween; ++i) {
      if (announced.load(std::memory_order_relaxed) != seen)
        return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  while (std::chrono::steady_clock::now() < end);
}

void ThreadPool::help() {
  std::unique_lock lock(mutex);
  while (true) {
    Loop *loop = nullptr;
    if (const uint64_t seen = announced.load(std::memory_order_relaxed); !stopping && !openLoop()) {
      lock.unlock();
      awaitLoop(seen);
      lock.lock();
    }
    opened.wait(lock, [&] { return stopping || (loop = openLoop()) != nullptr; });
    if (stopping)
      return;
    ++loop->helpers;
    lock.unlock();
    takeLent();
    loop->work();
    lock.lock();
    if (--loop->helpers == 0)
      left.notify_all();
  }
}

} // namespace mt::kernels::cpu
