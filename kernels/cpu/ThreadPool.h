// The threads that kernels share: a loop over chunks whose number never depends on the number of threads, so that
// results do not either. Several streams may call it at once; every caller works on its own loop. Not a task graph:
// loops do not nest. One scratch buffer a thread, and one that a caller's loops share, which the pool's owner may lend.
#ifndef MT_KERNELS_CPU_THREADPOOL_H
#define MT_KERNELS_CPU_THREADPOOL_H

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace mt::kernels::cpu {

/// Bytes that a call takes.
struct Scratch {
  uint64_t own = 0;     ///< of ThreadPool::scratch(), each thread
  uint64_t library = 0; ///< what the library that multiplies allocates, each thread
  uint64_t shared = 0;  ///< of ThreadPool::sharedScratch(), on a pool of more than kSharers threads
  static constexpr int kSharers = 2;

  /// What does for both, one after another.
  Scratch either(Scratch other) const {
    return {std::max(own, other.own), std::max(library, other.library), std::max(shared, other.shared)};
  }
};

class ThreadPool {
public:
  /// `threads` in all, a caller being one of them; fewer than one count as one. Where the system has no more threads to
  /// give, those that it gave.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return recorded ? recordedFor : static_cast<int>(workers.size()) + 1; }

  /// Calls body(chunk) for every chunk in [0, chunks), in any order and on any thread, and returns when all are done.
  /// Bodies must not throw and must not call parallelFor.
  template <typename Body> void parallelFor(int64_t chunks, const Body &body) {
    run(
        chunks, [](const void *context, int64_t chunk) { (*static_cast<const Body *>(context))(chunk); }, &body);
  }

  /// Threads take their scratch from `memory` from now on: `each` bytes for the pool's own and the first `callers`
  /// others, and behind them `shared` for each of these. Before the first loop; the memory must outlive the last one.
  void lendScratch(std::byte *memory, size_t each, int callers, size_t shared = 0);

  /// From now on loops run on the calling thread alone, as this were a pool of `threads`, and leave the seconds of each
  /// of their chunks here: from which follows what such a pool would take. Null ends it.
  void record(std::vector<std::vector<double>> *loops, int threads = 1) { recorded = loops, recordedFor = threads; }

  /// At least `bytes` bytes for the calling thread, aligned to 64, undefined, valid until it asks again. What was lent
  /// if it suffices, else allocated, and kept by the thread.
  static std::byte *scratch(size_t bytes);
  /// The same, beside it, for a caller, whose loops may share it until the call ends.
  std::byte *sharedScratch(size_t bytes);
  template <typename T> static T *scratchOf(int64_t count) {
    return reinterpret_cast<T *>(scratch(static_cast<size_t>(count) * sizeof(T)));
  }

private:
  using Function = void (*)(const void *, int64_t);
  struct Loop {
    Function function;
    const void *context;
    int64_t chunks;
    std::atomic<int64_t> next{0};
    int helpers = 0; ///< workers inside; guarded by the pool's mutex
    void work();
  };

  void run(int64_t chunks, Function function, const void *context);
  void runRecorded(int64_t chunks, Function function, const void *context);
  void takeLent();
  void help();
  void awaitLoop(uint64_t seen) const;
  Loop *openLoop();

  const bool spins;                        ///< there is a core for each thread
  std::atomic<uint64_t> announced = 0; ///< loops so far
  std::mutex mutex;
  std::condition_variable opened, left;
  std::deque<Loop *> loops;
  bool stopping = false;
  std::vector<std::vector<double>> *recorded = nullptr;
  int recordedFor = 1;
  uint64_t loan = 0; ///< a number of its own for every loan; 0: none
  std::byte *lent = nullptr;
  size_t lentEach = 0;
  size_t lentShared = 0;
  int lentParts = 0, lentCallers = 0;
  std::atomic<int> takenParts = 0, takenShared = 0;
  std::vector<std::thread> workers;
};

} // namespace mt::kernels::cpu
#endif
