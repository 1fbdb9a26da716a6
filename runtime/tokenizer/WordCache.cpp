#include "runtime/tokenizer/WordCache.h"

#include <xxhash.h>

namespace mt::tokenizer {

uint64_t hashOf(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

void WordCache::put(std::string_view word, uint64_t hash, std::span<const uint32_t> its) {
  if (word.empty() || word.size() > kLongestWord || its.size() > UINT16_MAX)
    return;
  if (slots.empty() || text.size() + ids.size() * sizeof(uint32_t) > kMostBytes) {
    slots.assign(kSlots, Slot());
    text.clear();
    ids.clear();
  }
  slots[hash % kSlots] = {hash, static_cast<uint32_t>(text.size()), static_cast<uint32_t>(ids.size()),
                          static_cast<uint16_t>(word.size()), static_cast<uint16_t>(its.size())};
  text += word;
  ids.insert(ids.end(), its.begin(), its.end());
}

} // namespace mt::tokenizer
