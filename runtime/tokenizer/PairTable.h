// What pairs of ids become, and which pair goes first: the merges of a BPE model, in one table.
#ifndef MT_RUNTIME_TOKENIZER_PAIRTABLE_H
#define MT_RUNTIME_TOKENIZER_PAIRTABLE_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mt::tokenizer {

class PairTable {
public:
  struct Entry {
    uint32_t left = kNone, right = 0;
    uint32_t rank = 0, id = 0; ///< the lower rank goes first; id: of what the pair becomes
  };

  explicit PairTable(size_t pairs = 0) {
    while ((size_t(1) << (64 - shift)) < 2 * pairs + 2)
      --shift;
    entries.resize(size_t(1) << (64 - shift));
  }
  /// No more than there were announced. A later entry of the same pair counts.
  void put(const Entry &entry) { entries[slotOf(entry.left, entry.right)] = entry; }
  const Entry *find(uint32_t left, uint32_t right) const {
    const Entry &entry = entries[slotOf(left, right)];
    return entry.left == kNone ? nullptr : &entry;
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  size_t slotOf(uint32_t left, uint32_t right) const {
    uint64_t key = (uint64_t(left) << 32 | right) * uint64_t(0x9e3779b97f4a7c15);
    size_t slot = (key ^ key >> 29) * uint64_t(0xbf58476d1ce4e5b9) >> shift;
    while (entries[slot].left != kNone && (entries[slot].left != left || entries[slot].right != right))
      slot = (slot + 1) & (entries.size() - 1);
    return slot;
  }
  int shift = 63; ///< 64 less the bits of a slot
  std::vector<Entry> entries;
};

} // namespace mt::tokenizer
#endif
