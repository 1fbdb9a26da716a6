// An execution of device code on the host, to find what is wrong with it where there is no GPU. Each thread of a block
// is a fiber; between barriers they run one after another in a random order, blocks in a random order too. Every access
// that the code makes is looked at, for the compiler calls the functions of -fsanitize=thread, which are defined here:
//
// - of global memory: whether it lies in what the call may touch (Scope), and whether another thread of the launch
//   touched it too, at least one of the two writing, without a barrier of their block between;
// - of shared memory: the same, and whether anything was written there before it is read;
// - a barrier: whether all threads of the block come there; a shuffle: whether all lanes of its mask do;
// - the undefined behaviour that -fsanitize=undefined reports: misaligned packs, indices beyond an array.
//
// With -fsanitize=address (the preset asan), which excludes the former, accesses are the address sanitizer's to judge.
//
// A launch that does something wrong is given up: it reports failure, and problem() says what, where and in which
// thread.
#ifndef MT_TESTS_SIMT_SIMT_H
#define MT_TESTS_SIMT_SIMT_H

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mt::simt {

struct Index {
  unsigned x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
};
struct Geometry {
  Index blocks, threads;
};

/// What a thread is told.
struct Builtins {
  Index thread, block, threads, blocks;
};
extern Builtins builtins;

/// Global memory that device code may touch.
struct Range {
  const void *begin = nullptr;
  uint64_t bytes = 0;
  bool writable = false;
  bool shared = false; ///< threads may all write there, the same value
  std::string name;
};

/// Until it ends, launches of the calling thread touch these ranges or are wrong. Without any, nothing of global
/// memory.
class Scope {
public:
  explicit Scope(std::vector<Range> ranges);
  Scope(const Scope &) = delete;
  ~Scope();

private:
  std::vector<Range> ranges;
  const std::vector<Range> *before;
};
/// Whether `bytes` from `begin` on lie in a range of the calling thread's scope; else problem() says what is wrong.
bool touches(const void *begin, uint64_t bytes, bool writes, const std::string &who);

/// The order in which threads and blocks run.
void setSeed(uint64_t seed);

/// What the first launch that failed since the last call did wrong; empty: nothing.
std::string problem();

/// If set, called with the stream of each launch, each call of a library and of the runtime, which then does nothing:
/// addresses need not exist.
extern std::function<void(void *stream)> instead;
/// Calls it; false if there is none.
bool happensInstead(void *stream);

/// Launches by the symbol of their code.
std::map<std::string, uint64_t> launches();

// For the device's side of cuda_runtime.h.

/// Waits for all threads of the block; how many of them came with 1.
int barrier(int value);
/// What lane `from` brought, once all lanes of `mask` came.
uint64_t shuffle(unsigned mask, uint64_t bits, int from);
int lane();

/// Runs `thread` once for each thread. False: something was wrong. `bytes`: of parameters.
bool launch(const Geometry &geometry, const void *code, uint64_t bytes, const void *thread, void (*run)(const void *));
template <typename Thread>
bool launch(const Geometry &geometry, const void *code, uint64_t bytes, const Thread &thread) {
  return launch(geometry, code, bytes, &thread, [](const void *body) { (*static_cast<const Thread *>(body))(); });
}

} // namespace mt::simt
#endif
