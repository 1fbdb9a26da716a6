// How much of a run's copies and updates lie under compute: from the times of its commands, grouped by the stretches in
// which nothing was drained. Pure; knows no plan.
#ifndef MT_RUNTIME_EXECUTOR_OVERLAP_H
#define MT_RUNTIME_EXECUTOR_OVERLAP_H

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mt::executor {

enum class Work : uint8_t { compute, copy, update };

/// Shares are of 1. Several streams that copy at once count once.
struct Shares {
  double seconds = 0;       ///< from the first command of a stretch to its last, over all stretches
  double computeBusy = 0;   ///< of those seconds
  double copySeconds = 0;   ///< in which something is copied
  double copiesHidden = 1;  ///< of them: compute goes on too
  double updateSeconds = 0; ///< in which something is updated
  double updatesHidden = 1; ///< of them: compute goes on too
};

class Overlap {
public:
  /// A command that ran from `begin` to `end` seconds in a stretch of the run.
  void add(uint64_t stretch, Work work, double begin, double end);
  Shares shares() const;

private:
  struct Interval {
    double begin, end;
  };
  using Intervals = std::vector<Interval>;
  std::map<uint64_t, std::array<Intervals, 3>> stretches;

  static Intervals united(Intervals intervals);
  static double length(const Intervals &intervals);
  static double shared(const Intervals &some, const Intervals &others);
};

/// "compute is busy 93 % of 1.20 s; of 0.80 s of copies 88 % lie under it, of 0.30 s of updates 97 %".
std::string describe(const Shares &shares);

} // namespace mt::executor
#endif
