#include "runtime/plan/Contention.h"

#include <algorithm>
#include <limits>

namespace mt::plan {

double contentionBetween(const Stream &a, const Stream &b, const Contention &contention) {
  auto isItsDevices = [](const Stream &stream) {
    return stream.kind == StreamKind::compute || stream.kind == StreamKind::peer;
  };
  auto isHost = [](const Stream &stream) { return isOfHost(stream.kind); };
  if (a.device != b.device && (isItsDevices(a) || isItsDevices(b)) && !isHost(a) && !isHost(b))
    return 0;
  const bool isOneLink = a.kind == b.kind && a.device == b.device && a.kind != StreamKind::compute && !isHost(a);
  return isOneLink ? 1 : contention[static_cast<size_t>(a.kind)][static_cast<size_t>(b.kind)];
}

UnderWay::UnderWay(std::span<const Stream> streams, const Contention &contention)
    : works(streams.size()), slowdown(streams.size() * streams.size(), 0) {
  for (size_t a = 0; a < streams.size(); ++a)
    for (size_t b = 0; b < streams.size(); ++b)
      if (a != b) {
        slowdown[a * streams.size() + b] = contentionBetween(streams[a], streams[b], contention);
        isShared |= slowdown[a * streams.size() + b] > 0;
      }
}

void UnderWay::begin(uint32_t stream, double seconds) {
  Work &work = works[stream];
  work = {.left = seconds, .times = 1, .since = time, .end = time + seconds, .number = begun++, .busy = true};
  for (uint32_t other : busy)
    work.times += slowdown[stream * works.size() + other];
  work.end = time + work.left * work.times;
  if (isShared)
    change(stream, true);
  busy.push_back(stream);
}

/// Counts what others did at their old rates, and sets new ones.
void UnderWay::change(uint32_t stream, bool begins) {
  for (uint32_t other : busy) {
    const double share = slowdown[other * works.size() + stream];
    if (share == 0)
      continue;
    Work &work = works[other];
    work.left = std::max(0.0, work.left - (time - work.since) / work.times);
    work.since = time;
    work.times = 1;
    for (uint32_t beside : busy)
      work.times += beside == other ? 0 : slowdown[other * works.size() + beside];
    work.times += begins ? share : 0;
    work.end = time + work.left * work.times;
  }
}

const std::vector<uint32_t> &UnderWay::advance() {
  double next = std::numeric_limits<double>::infinity();
  for (uint32_t stream : busy)
    next = std::min(next, works[stream].end);
  ended.clear();
  for (uint32_t stream : busy)
    if (works[stream].end <= next)
      ended.push_back(stream);
  time = std::max(time, next);
  for (uint32_t stream : ended) {
    works[stream].busy = false;
    std::erase(busy, stream);
  }
  std::ranges::sort(ended, {}, [this](uint32_t stream) { return works[stream].number; });
  if (isShared)
    for (uint32_t stream : ended)
      change(stream, false);
  return ended;
}

} // namespace mt::plan
