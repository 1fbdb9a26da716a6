#include "runtime/executor/Overlap.h"

#include "runtime/base/Sizes.h"

#include <algorithm>

namespace mt::executor {

void Overlap::add(uint64_t stretch, Work work, double begin, double end) {
  stretches[stretch][static_cast<size_t>(work)].push_back({begin, end});
}

/// The same seconds in intervals that are disjoint and in order.
Overlap::Intervals Overlap::united(Intervals intervals) {
  std::ranges::sort(intervals, {}, &Interval::begin);
  Intervals made;
  for (const Interval &one : intervals) {
    if (!made.empty() && one.begin <= made.back().end)
      made.back().end = std::max(made.back().end, one.end);
    else
      made.push_back(one);
  }
  return made;
}

double Overlap::length(const Intervals &intervals) {
  double seconds = 0;
  for (const Interval &one : intervals)
    seconds += one.end - one.begin;
  return seconds;
}

/// Seconds that lie in both; each is disjoint and in order.
double Overlap::shared(const Intervals &some, const Intervals &others) {
  double seconds = 0;
  for (size_t i = 0, j = 0; i < some.size() && j < others.size();) {
    seconds += std::max(0.0, std::min(some[i].end, others[j].end) - std::max(some[i].begin, others[j].begin));
    some[i].end < others[j].end ? ++i : ++j;
  }
  return seconds;
}

Shares Overlap::shares() const {
  Shares shares;
  double compute = 0, hiddenCopies = 0, hiddenUpdates = 0;
  for (const auto &[number, works] : stretches) {
    Intervals all, busy = united(works[0]), copies = united(works[1]), updates = united(works[2]);
    for (const Intervals *some : {&busy, &copies, &updates})
      all.insert(all.end(), some->begin(), some->end());
    shares.seconds += std::ranges::max(all, {}, &Interval::end).end - std::ranges::min(all, {}, &Interval::begin).begin;
    compute += length(busy);
    shares.copySeconds += length(copies);
    shares.updateSeconds += length(updates);
    hiddenCopies += shared(copies, busy);
    hiddenUpdates += shared(updates, busy);
  }
  shares.computeBusy = shares.seconds > 0 ? compute / shares.seconds : 0;
  shares.copiesHidden = shares.copySeconds > 0 ? hiddenCopies / shares.copySeconds : 1;
  shares.updatesHidden = shares.updateSeconds > 0 ? hiddenUpdates / shares.updateSeconds : 1;
  return shares;
}

std::string describe(const Shares &shares) {
  return fmt::format("compute is busy {:.0f} % of {}; of {} of copies {:.0f} % lie under it, of {} of updates {:.0f} %",
                     100 * shares.computeBusy, formatSeconds(shares.seconds), formatSeconds(shares.copySeconds),
                     100 * shares.copiesHidden, formatSeconds(shares.updateSeconds), 100 * shares.updatesHidden);
}

} // namespace mt::executor
