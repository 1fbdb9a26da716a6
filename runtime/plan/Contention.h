// Streams that slow each other down: what shares a processor, a link or a memory takes longer while the other works.
#ifndef MT_RUNTIME_PLAN_CONTENTION_H
#define MT_RUNTIME_PLAN_CONTENTION_H

#include "runtime/plan/Program.h"

#include <span>
#include <vector>

namespace mt::plan {

/// How much longer work on one stream takes while another works. Copies one way share their link; what computes, or
/// copies to another device, has its device's own, and all share the host.
double contentionBetween(const Stream &a, const Stream &b, const Contention &contention);

/// Work that streams do at once. Time passes as far as the next end.
class UnderWay {
public:
  UnderWay(std::span<const Stream> streams, const Contention &contention);

  double now() const { return time; }
  bool isBusy(uint32_t stream) const { return works[stream].busy; }
  bool any() const { return !busy.empty(); }
  /// Begins work that takes so many seconds alone, on a stream that has none.
  void begin(uint32_t stream, double seconds);
  /// Moves on to the next end. The streams whose work has ended then, in the order in which it began.
  const std::vector<uint32_t> &advance();

private:
  struct Work {
    double left = 0, times = 1,
           since = 0; ///< seconds of work that were left at `since`, and how many a second of it takes
    double end = 0;
    uint64_t number = 0;
    bool busy = false;
  };
  std::vector<Work> works;
  std::vector<uint32_t> busy;   ///< streams
  std::vector<double> slowdown; ///< streams x streams
  bool isShared = false;
  double time = 0;
  uint64_t begun = 0;
  std::vector<uint32_t> ended;

  void change(uint32_t stream, bool begins);
};

} // namespace mt::plan
#endif
