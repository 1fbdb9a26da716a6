#include "runtime/tokenizer/Merging.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace mt::tokenizer {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kFew = 48;

uint32_t rankOf(const PairTable &pairs, uint32_t left, uint32_t right) {
  const PairTable::Entry *entry = pairs.find(left, right);
  return entry ? entry->rank : kNone;
}

/// ranks[i] is that of the pair (i, i + 1).
void mergeFew(const PairTable &pairs, std::vector<uint32_t> &ranks, std::vector<uint32_t> &ids, size_t begin) {
  uint32_t *row = ids.data() + begin;
  size_t count = ids.size() - begin;
  ranks.resize(count);
  for (size_t i = 0; i + 1 < count; ++i)
    ranks[i] = rankOf(pairs, row[i], row[i + 1]);
  while (count > 1) {
    size_t best = static_cast<size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<ptrdiff_t>(count) - 1) - ranks.begin());
    if (ranks[best] == kNone)
      break;
    row[best] = pairs.find(row[best], row[best + 1])->id;
    std::copy(row + best + 2, row + count, row + best + 1);
    std::copy(ranks.begin() + static_cast<ptrdiff_t>(best) + 1, ranks.begin() + static_cast<ptrdiff_t>(count),
              ranks.begin() + static_cast<ptrdiff_t>(best));
    --count;
    if (best > 0)
      ranks[best - 1] = rankOf(pairs, row[best - 1], row[best]);
    if (best + 1 < count)
      ranks[best] = rankOf(pairs, row[best], row[best + 1]);
  }
  ids.resize(begin + count);
}

/// The joins of many ids, by rank and place. Those of a rank are added from left to right but for a few, so that a row
/// keeps most of them in order, and a heap the others.
class Queue {
public:
  Queue(const PairTable &pairs, Scratch &scratch)
      : pairs(pairs), row(scratch.symbols), levels(scratch.levels), levelOf(scratch.levelOf), waiting(scratch.ranks) {}

  void run() {
    waiting.clear();
    for (uint32_t i = 0; i + 1 < row.size(); ++i)
      offer(i, i + 1);
    while (!waiting.empty()) {
      uint32_t rank = waiting.front();
      Level &level = levels[levelOf[rank]];
      if (level.empty()) {
        std::pop_heap(waiting.begin(), waiting.end(), std::greater());
        waiting.pop_back();
        level.waits = false;
        continue;
      }
      take(rank, level.next());
    }
    for (const Level &level : levels)
      levelOf[level.rank] = kNone;
    levels.clear();
  }

private:
  using Level = Scratch::Level;

  void offer(uint32_t left, uint32_t right) {
    const PairTable::Entry *entry = pairs.find(row[left].id, row[right].id);
    if (!entry)
      return;
    if (entry->rank >= levelOf.size())
      levelOf.resize(entry->rank + 1, kNone);
    if (levelOf[entry->rank] == kNone) {
      levelOf[entry->rank] = static_cast<uint32_t>(levels.size());
      levels.emplace_back().rank = entry->rank;
    }
    Level &level = levels[levelOf[entry->rank]];
    level.add(left);
    if (!std::exchange(level.waits, true)) {
      waiting.push_back(entry->rank);
      std::push_heap(waiting.begin(), waiting.end(), std::greater());
    }
  }

  void take(uint32_t rank, uint32_t place) {
    Symbol &left = row[place];
    if (left.gone || left.next == kNone)
      return;
    Symbol &right = row[left.next];
    const PairTable::Entry *entry = pairs.find(left.id, right.id);
    if (!entry || entry->rank != rank) // of a pair that is no longer there
      return;
    left.id = entry->id;
    right.gone = true;
    left.next = right.next;
    if (left.next != kNone)
      row[left.next].previous = place;
    if (left.previous != kNone)
      offer(left.previous, place);
    if (left.next != kNone)
      offer(place, left.next);
  }

  const PairTable &pairs;
  std::vector<Symbol> &row;
  std::vector<Level> &levels;
  std::vector<uint32_t> &levelOf;
  std::vector<uint32_t> &waiting; ///< a heap of the ranks of levels that are not empty
};

} // namespace

void mergePairs(const PairTable &pairs, Scratch &scratch, std::vector<uint32_t> &ids, size_t begin) {
  size_t count = ids.size() - begin;
  if (count < 2)
    return;
  if (count <= kFew)
    return mergeFew(pairs, scratch.ranks, ids, begin);
  std::vector<Symbol> &row = scratch.symbols;
  row.clear();
  for (uint32_t i = 0; i < count; ++i)
    row.push_back({ids[begin + i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1, false});
  Queue(pairs, scratch).run();
  ids.resize(begin);
  for (uint32_t i = 0; i != kNone; i = row[i].next)
    ids.push_back(row[i].id);
}

} // namespace mt::tokenizer
