// Streams that slow each other down: what shares a processor, a link or a memory takes longer while the other works.
#ifndef MT_RUNTIME_PLAN_CONTENTION_H
#define MT_RUNTIME_PLAN_CONTENTION_H

#include "runtime/plan/Program.h"

#include <span>
#include <vector>

namespace mt::plan {

/// Work that streams do at once. Time passes as far as the next end.
class UnderWay {
public:
  UnderWay(std::span<const Stream> streams, const Contention &contention);

  double now() const { return time; }
  bool isBusy(uint32_t stream) const { return works[stream].busy; }
  bool any() const { return busy > 0; }
  /// Begins work that takes so many seconds alone, on a stream that has none.
  void begin(uint32_t stream, double seconds);
  /// Moves on to the next end. The streams whose work has ended then, in the order in which it began.
  const std::vector<uint32_t> &advance();

private:
  struct Work {
    bool busy = false;
    double left = 0, rate = 1, since = 0; ///< seconds of work that were left at `since`, and how much of it a second does
    double end = 0;
    uint64_t number = 0;
  };
  std::vector<Work> works;
  std::vector<double> slowdown; ///< streams x streams
  bool isShared = false;
  double time = 0;
  uint64_t begun = 0;
  size_t busy = 0;
  std::vector<uint32_t> ended;

  void change();
};

} // namespace mt::plan
#endif
