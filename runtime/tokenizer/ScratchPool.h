// Scratch memory for as many threads as encode at once, given back for the next text.
#ifndef MT_RUNTIME_TOKENIZER_SCRATCHPOOL_H
#define MT_RUNTIME_TOKENIZER_SCRATCHPOOL_H

#include "runtime/tokenizer/Scratch.h"

#include <memory>
#include <mutex>

namespace mt::tokenizer {

class ScratchPool {
public:
  std::unique_ptr<Scratch> take(size_t buffers) {
    std::unique_ptr<Scratch> scratch;
    {
      std::lock_guard lock(mutex);
      if (!free.empty()) {
        scratch = std::move(free.back());
        free.pop_back();
      }
    }
    if (!scratch)
      scratch = std::make_unique<Scratch>();
    scratch->buffers.resize(buffers);
    return scratch;
  }
  void giveBack(std::unique_ptr<Scratch> scratch) {
    scratch->failure = Status();
    trim(scratch->symbols);
    trim(scratch->ranks);
    trim(scratch->ends);
    trim(scratch->normal);
    trim(scratch->other);
    for (std::string &buffer : scratch->buffers)
      trim(buffer);
    std::lock_guard lock(mutex);
    free.push_back(std::move(scratch));
  }

private:
  /// A long text's memory does not stay.
  template <typename Held> static void trim(Held &held) {
    constexpr size_t kMost = 1 << 20;
    if (held.capacity() > kMost)
      Held().swap(held);
  }
  std::mutex mutex;
  std::vector<std::unique_ptr<Scratch>> free;
};

} // namespace mt::tokenizer
#endif
