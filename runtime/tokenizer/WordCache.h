// The ids of words that came before: texts repeat the same words, and a table is faster than any model. Of bounded
// size; words share places, and the newer one stays.
#ifndef MT_RUNTIME_TOKENIZER_WORDCACHE_H
#define MT_RUNTIME_TOKENIZER_WORDCACHE_H

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

/// XXH3-64 of a text.
uint64_t hashOf(std::string_view text);

class WordCache {
public:
  static constexpr size_t kLongestWord = 128; ///< bytes; longer ones are not kept

  /// The ids of a word, valid until the next put(); nothing where they are not known.
  std::optional<std::span<const uint32_t>> find(std::string_view word, uint64_t hash) const {
    if (slots.empty())
      return std::nullopt;
    const Slot &slot = slots[hash % kSlots];
    if (slot.hash != hash || std::string_view(text).substr(slot.text, slot.length) != word)
      return std::nullopt;
    return std::span(ids).subspan(slot.ids, slot.count);
  }
  void put(std::string_view word, uint64_t hash, std::span<const uint32_t> its);

private:
  static constexpr size_t kSlots = 1 << 17, kMostBytes = 16 << 20;
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0, ids = 0; ///< where they begin
    uint16_t length = 0, count = 0;
  };
  std::vector<Slot> slots;
  std::string text;
  std::vector<uint32_t> ids;
};

} // namespace mt::tokenizer
#endif
