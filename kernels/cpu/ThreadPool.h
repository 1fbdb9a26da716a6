// The threads that kernels share: a loop over chunks whose number never depends on the number of threads, so that
// results do not either. Several streams may call it at once; every caller works on its own loop. Not a task graph:
// loops do not nest. One scratch buffer a thread.
#ifndef MT_KERNELS_CPU_THREADPOOL_H
#define MT_KERNELS_CPU_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace mt::kernels::cpu {

class ThreadPool {
public:
  /// `threads` in all, a caller being one of them; fewer than one count as one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return static_cast<int>(workers.size()) + 1; }

  /// Calls body(chunk) for every chunk in [0, chunks), in any order and on any thread, and returns when all are done.
  /// Bodies must not throw and must not call parallelFor.
  template <typename Body> void parallelFor(int64_t chunks, const Body &body) {
    run(
        chunks, [](const void *context, int64_t chunk) { (*static_cast<const Body *>(context))(chunk); }, &body);
  }

  /// At least `bytes` bytes for the calling thread, aligned to 64, undefined, valid until it asks again.
  static std::byte *scratch(size_t bytes);
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
  void help();
  Loop *openLoop();

  std::mutex mutex;
  std::condition_variable opened, left;
  std::deque<Loop *> loops;
  bool stopping = false;
  std::vector<std::thread> workers;
};

} // namespace mt::kernels::cpu
#endif
