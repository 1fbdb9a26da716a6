#include "runtime/plan/Contention.h"

#include <algorithm>
#include <limits>

namespace mt::plan {

UnderWay::UnderWay(std::span<const Stream> streams, const Contention &contention)
    : works(streams.size()), slowdown(streams.size() * streams.size(), 0) {
  for (size_t a = 0; a < streams.size(); ++a)
    for (size_t b = 0; b < streams.size(); ++b)
      if (a != b) {
        slowdown[a * streams.size() + b] = contention[static_cast<size_t>(streams[a].kind)][static_cast<size_t>(streams[b].kind)];
        isShared |= slowdown[a * streams.size() + b] > 0;
      }
}

void UnderWay::begin(uint32_t stream, double seconds) {
  works[stream] = {.busy = true, .left = seconds, .rate = 1, .since = time, .end = time + seconds, .number = begun++};
  ++busy;
  if (isShared)
    change();
}

/// Counts what was done at the old rates, and sets new ones: those of all work that is under way now.
void UnderWay::change() {
  for (size_t a = 0; a < works.size(); ++a) {
    Work &work = works[a];
    if (!work.busy)
      continue;
    work.left = std::max(0.0, work.left - (time - work.since) * work.rate);
    work.since = time;
    double times = 1;
    for (size_t b = 0; b < works.size(); ++b)
      if (works[b].busy)
        times += slowdown[a * works.size() + b];
    work.rate = 1 / times;
    work.end = time + work.left * times;
  }
}

const std::vector<uint32_t> &UnderWay::advance() {
  double next = std::numeric_limits<double>::infinity();
  for (const Work &work : works)
    if (work.busy)
      next = std::min(next, work.end);
  ended.clear();
  for (uint32_t i = 0; i < works.size(); ++i)
    if (works[i].busy && works[i].end <= next) {
      ended.push_back(i);
      works[i].busy = false;
      --busy;
    }
  time = std::max(time, next);
  std::ranges::sort(ended, {}, [this](uint32_t stream) { return works[stream].number; });
  if (isShared && busy > 0)
    change();
  return ended;
}

} // namespace mt::plan
