// Work that several threads take pieces of until none is left. Not the kernels' pool, whose threads stay: these end with
// the work.
#ifndef MT_RUNTIME_BASE_THREADS_H
#define MT_RUNTIME_BASE_THREADS_H

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace mt {

/// The cores that this process may use, at least one: those that it may run on, each once however many threads it has, and no
/// more than its control groups give it time for.
uint64_t coreCount();
/// The same of processors by number, from other roots of /proc and /sys, for tests.
uint64_t coreCount(std::span<const int> processors, const std::string &proc, const std::string &sys);

/// Calls `work` on up to `threads` threads at once, this one among them, and returns when all have come back. Where the
/// system has no more threads to give, fewer do it. `work` must not throw.
void onThreads(uint64_t threads, const std::function<void()> &work);

} // namespace mt
#endif
