#include "runtime/tokenizer/Merging.h"

#include <algorithm>

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

/// The order of the queue: std's heaps have the largest in front.
bool isLater(const Join &a, const Join &b) { return a.rank != b.rank ? a.rank > b.rank : a.place > b.place; }

class Queue {
public:
  Queue(const PairTable &pairs, Scratch &scratch) : pairs(pairs), row(scratch.symbols), joins(scratch.joins) {}

  void run() {
    joins.clear();
    for (uint32_t i = 0; i + 1 < row.size(); ++i)
      offer(i, i + 1);
    std::make_heap(joins.begin(), joins.end(), isLater);
    inHeap = true;
    while (!joins.empty()) {
      std::pop_heap(joins.begin(), joins.end(), isLater);
      Join join = joins.back();
      joins.pop_back();
      take(join);
    }
  }

private:
  void offer(uint32_t left, uint32_t right) {
    const PairTable::Entry *entry = pairs.find(row[left].id, row[right].id);
    if (!entry)
      return;
    joins.push_back({entry->rank, left, entry->id});
    if (inHeap)
      std::push_heap(joins.begin(), joins.end(), isLater);
  }

  void take(const Join &join) {
    Symbol &left = row[join.place];
    if (left.gone || left.next == kNone)
      return;
    Symbol &right = row[left.next];
    const PairTable::Entry *entry = pairs.find(left.id, right.id);
    if (!entry || entry->id != join.id) // of a pair that is no longer there
      return;
    left.id = join.id;
    right.gone = true;
    left.next = right.next;
    if (left.next != kNone)
      row[left.next].previous = join.place;
    if (left.previous != kNone)
      offer(left.previous, join.place);
    if (left.next != kNone)
      offer(join.place, left.next);
  }

  const PairTable &pairs;
  std::vector<Symbol> &row;
  std::vector<Join> &joins;
  bool inHeap = false;
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
