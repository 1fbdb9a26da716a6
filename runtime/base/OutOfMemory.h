// What a program does when the system gives no more memory: a message and exit status 1, whichever thread or library
// asked, instead of an exception that nobody catches. Not for memory that is reserved by plan: that has a Status.
#ifndef MT_RUNTIME_BASE_OUTOFMEMORY_H
#define MT_RUNTIME_BASE_OUTOFMEMORY_H

namespace mt {

/// From now on every `new` that fails ends the process by endForMemory(). `remedy` says what to do, without a full stop,
/// and must be a literal. Called first in a main.
void explainOutOfMemory(const char *remedy);

/// Writes "error: out of memory: <remedy>" and ends the process with status 1. Allocates nothing, runs no destructors:
/// files appear under their names only when complete.
[[noreturn]] void endForMemory();

} // namespace mt
#endif
