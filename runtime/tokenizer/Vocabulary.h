// Tokens and their ids, both ways. Texts are as they stand in the file.
#ifndef MT_RUNTIME_TOKENIZER_VOCABULARY_H
#define MT_RUNTIME_TOKENIZER_VOCABULARY_H

#include "runtime/base/Status.h"
#include "runtime/tokenizer/WordCache.h"

#include <deque>

namespace mt::tokenizer {

class Vocabulary {
public:
  static constexpr uint32_t kMostIds = 1 << 24;

  /// Errors: the id is taken by another token, or is too large. A token that is there keeps its id.
  Status add(std::string_view token, uint64_t id);

  std::optional<uint32_t> find(std::string_view token) const;
  /// The token of an id; nothing where it has none.
  const std::string *token(uint32_t id) const { return id < byId.size() ? byId[id] : nullptr; }
  /// One more than the largest id.
  uint32_t end() const { return static_cast<uint32_t>(byId.size()); }
  /// Tokens that there are.
  size_t size() const { return entries.size(); }

private:
  struct Entry {
    std::string token;
    uint64_t hash;
    uint32_t id;
  };
  void grow();
  std::deque<Entry> entries;   ///< at places that stay
  std::vector<uint32_t> slots; ///< 1 + number of an entry, or 0; by hash, the next where one is taken
  std::vector<const std::string *> byId;
};

} // namespace mt::tokenizer
#endif
