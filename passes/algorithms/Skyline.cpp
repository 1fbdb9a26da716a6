#include "passes/algorithms/Skyline.h"

#include "passes/algorithms/Lifetimes.h"

#include <algorithm>
#include <numeric>

namespace mt::passes {

Skyline::Skyline(std::span<const SlotRequest> slots, std::span<const uint32_t> chosen, uint32_t allMoments,
                 uint64_t base)
    : slots(slots), base(base) {
  // Only moments at which a slot begins or another's is over are told apart.
  std::vector<uint32_t> borders;
  const auto endOf = [&](const SlotRequest &slot) { return slot.last + 1 < allMoments ? slot.last + 1 : 0; };
  for (uint32_t slot : chosen) {
    borders.push_back(slots[slot].first);
    borders.push_back(endOf(slots[slot]));
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  moments = static_cast<uint32_t>(borders.size());
  const auto momentOf = [&](uint32_t moment) {
    return static_cast<uint32_t>(std::lower_bound(borders.begin(), borders.end(), moment) - borders.begin());
  };
  std::vector<SlotRequest> requests;
  firstAt.assign(size_t(moments) + 1, 0);
  for (uint32_t slot : chosen) {
    const uint32_t first = momentOf(slots[slot].first), end = momentOf(endOf(slots[slot]));
    requests.push_back({slots[slot].bytes, first, (end > 0 ? end : moments) - 1});
    ++firstAt[first + 1];
  }
  std::partial_sum(firstAt.begin(), firstAt.end(), firstAt.begin());
  live = liveBytes(requests, moments);
  for (uint64_t &bytes : live)
    bytes += base;
  bound = moments > 0 ? *std::max_element(live.begin(), live.end()) : base;
  items.resize(chosen.size());
  std::vector<uint32_t> next(firstAt.begin(), firstAt.end() - 1);
  for (uint32_t i = 0; i < chosen.size(); ++i) {
    const Item item{chosen[i], requests[i].first, durationOf(requests[i], moments)};
    uint64_t most = 0;
    for (uint32_t k = 0; k < item.duration; ++k)
      most = std::max(most, live[(item.first + k) % moments]);
    crowdings.push_back(static_cast<double>(most) / static_cast<double>(bound));
    placeOf.push_back(next[item.first]++);
    items[placeOf[i]] = item;
  }
  rankOf.resize(items.size());
}

uint64_t Skyline::place(std::span<const uint32_t> ranks, uint64_t limit, std::vector<uint64_t> &offsets) {
  for (uint32_t i = 0; i < ranks.size(); ++i)
    rankOf[placeOf[i]] = ranks[i];
  waiting.resize(items.size() + 1);
  std::iota(waiting.begin(), waiting.end(), 0);
  wasted.assign(moments, 0);
  segments.assign(1, {base, 0, moments, 0, 0, true});
  for (std::vector<Height> &each : heights)
    each.clear();
  lowest = top = base;
  push(0);
  size_t left = items.size();
  while (left > 0) {
    const uint32_t segment = popLowest();
    findFitting(segments[segment]);
    if (fitting.empty()) {
      if (!raise(segment, limit))
        return UINT64_MAX;
      continue;
    }
    left -= fill(segment, offsets);
    if (top >= limit)
      return UINT64_MAX;
  }
  return top;
}

/// The first item from one on that is yet to be placed; their number: none.
uint32_t Skyline::nextWaiting(uint32_t item) {
  while (waiting[item] != item)
    item = waiting[item] = waiting[waiting[item]];
  return item;
}

/// Of several, the segment that is there for the longest time.
uint32_t Skyline::popLowest() {
  for (;;) {
    std::vector<Height> &equal = heights[0];
    size_t chosen = equal.size();
    for (size_t i = equal.size(); i-- > 0;)
      if (!isNow(equal[i])) {
        equal[i] = equal.back();
        equal.pop_back();
        chosen = chosen == equal.size() ? i : chosen;
      } else if (chosen >= equal.size() || equal[i].segment < equal[chosen].segment) {
        chosen = i;
      }
    if (!equal.empty()) {
      const uint32_t segment = equal[chosen].segment;
      equal[chosen] = equal.back();
      equal.pop_back();
      return segment;
    }
    size_t bucket = 1;
    while (heights[bucket].empty())
      ++bucket;
    uint64_t next = UINT64_MAX;
    std::erase_if(heights[bucket], [&](const Height &each) { return !isNow(each); });
    for (const Height &each : heights[bucket])
      next = std::min(next, each.height);
    if (heights[bucket].empty())
      continue;
    lowest = next;
    for (const Height &each : heights[bucket]) // to lower ones
      heights[bucketOf(each.height)].push_back(each);
    heights[bucket].clear();
  }
}

void Skyline::push(uint32_t segment) {
  const uint64_t height = segments[segment].height;
  heights[bucketOf(height)].push_back({height, segment});
}

/// Makes two segments neighbours.
void Skyline::join(uint32_t before, uint32_t after) {
  segments[before].next = after;
  segments[after].previous = before;
}

void Skyline::findFitting(const Segment &segment) {
  fitting.clear();
  const auto look = [&](uint32_t from, uint32_t to) {
    const uint32_t end = firstAt[to];
    for (uint32_t place = nextWaiting(firstAt[from]); place < end; place = nextWaiting(place + 1)) {
      const Item &item = items[place];
      ++looks;
      if (segment.length == moments || distance(segment.start, item.first) + item.duration <= segment.length)
        fitting.push_back(place);
    }
  };
  look(segment.start, std::min(segment.start + segment.length, moments));
  if (segment.start + segment.length > moments)
    look(0, segment.start + segment.length - moments);
  ++looks;
}

/// Places what fits, by rank, as long as some of the segment's height is left for it; returns how many.
uint32_t Skyline::fill(uint32_t segment, std::vector<uint64_t> &offsets) {
  for (uint64_t &each : fitting)
    each |= uint64_t{rankOf[each]} << 32;
  std::sort(fitting.begin(), fitting.end());
  // All around, the circle is cut where the first one begins.
  if (segments[segment].length == moments)
    segments[segment].start = items[static_cast<uint32_t>(fitting.front())].first;
  const uint32_t start = segments[segment].start;
  const uint64_t height = segments[segment].height;
  pieces.assign(1, {0, segments[segment].length, segment});
  uint32_t count = 0;
  for (const uint64_t each : fitting) {
    const auto place = static_cast<uint32_t>(each);
    const Item &item = items[place];
    const uint32_t from = distance(start, item.first);
    const auto after = std::upper_bound(pieces.begin(), pieces.end(), from,
                                        [](uint32_t at, const Piece &piece) { return at < piece.from; });
    ++looks;
    if (after == pieces.begin())
      continue;
    const Piece &piece = *(after - 1);
    if (from + item.duration > piece.from + piece.length)
      continue;
    offsets[item.slot] = alignUp(height, slots[item.slot].alignment);
    const uint64_t end = offsets[item.slot] + slots[item.slot].bytes;
    top = std::max(top, end);
    for (uint32_t i = 0; offsets[item.slot] > height && i < item.duration; ++i)
      wasted[(item.first + i) % moments] += offsets[item.slot] - height;
    waiting[place] = place + 1;
    ++count;
    split(static_cast<uint32_t>(after - 1 - pieces.begin()), item, end);
    if (pieces.empty())
      break;
  }
  for (const Piece &piece : pieces)
    push(piece.segment);
  return count;
}

/// Cuts an item's moments out of a piece: they become a segment of a greater height.
void Skyline::split(uint32_t index, const Item &item, uint64_t height) {
  const Piece piece = pieces[index];
  const Segment old = segments[piece.segment];
  const bool alone = old.previous == piece.segment;
  const uint32_t before = distance(old.start, item.first), behind = old.length - before - item.duration;
  const auto add = [&](uint32_t start, uint32_t length, uint64_t at) {
    segments.push_back({at, start % moments, length, 0, 0, true});
    return static_cast<uint32_t>(segments.size() - 1);
  };
  const uint32_t raised = add(item.first, item.duration, height);
  segments[piece.segment].live = before > 0;
  segments[piece.segment].length = before;
  pieces.erase(pieces.begin() + index);
  uint32_t first = raised, last = raised;
  if (behind > 0) {
    last = add(item.first + item.duration, behind, old.height);
    join(raised, last);
    pieces.insert(pieces.begin() + index, {piece.from + before + item.duration, behind, last});
  }
  if (before > 0) {
    first = piece.segment;
    join(first, raised);
    pieces.insert(pieces.begin() + index, {piece.from, before, first});
  }
  join(alone ? last : old.previous, first);
  join(last, alone ? first : old.next);
  settle(raised);
}

/// A neighbour of the same height becomes part of a segment, which may then be the lowest.
void Skyline::settle(uint32_t segment) {
  const uint32_t left = segments[segment].previous, right = segments[segment].next;
  const uint64_t height = segments[segment].height;
  if (left != segment && segments[left].height == height) {
    segments[left].length += segments[segment].length;
    segments[segment].live = false;
    join(left, right);
    segment = left;
  }
  if (right != segment && segments[right].height == height) {
    segments[segment].length += segments[right].length;
    segments[right].live = false;
    join(segment, segments[right].next);
  }
  push(segment);
}

/// Gives up what is left of a segment's height. False: then `limit` is reached where most is to come.
bool Skyline::raise(uint32_t index, uint64_t limit) {
  const Segment segment = segments[index];
  const uint64_t height = std::min(segments[segment.previous].height, segments[segment.next].height);
  looks += segment.length;
  for (uint32_t i = 0; i < segment.length; ++i) {
    const uint32_t moment = segment.start + i < moments ? segment.start + i : segment.start + i - moments;
    wasted[moment] += height - segment.height;
    if (live[moment] + wasted[moment] >= limit)
      return false;
  }
  segments[index].height = height;
  settle(index);
  return true;
}

} // namespace mt::passes
