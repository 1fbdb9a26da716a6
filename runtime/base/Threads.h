// Work that several threads take pieces of until none is left. Not the kernels' pool, whose threads stay: these end with
// the work.
#ifndef MT_RUNTIME_BASE_THREADS_H
#define MT_RUNTIME_BASE_THREADS_H

#include <cstdint>
#include <functional>

namespace mt {

/// The machine's cores, at least one.
uint64_t coreCount();

/// Calls `work` on up to `threads` threads at once, this one among them, and returns when all have come back. Where the
/// system has no more threads to give, fewer do it. `work` must not throw.
void onThreads(uint64_t threads, const std::function<void()> &work);

} // namespace mt
#endif
