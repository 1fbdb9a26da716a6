// SentencePiece's precompiled map of characters: a trie of what is replaced - a double array in the layout of
// Darts-clone - and the replacements, one after the other, each ended by a zero byte. Used by .model files and by the
// normalizer Precompiled.
#ifndef MT_RUNTIME_TOKENIZER_CHARSMAP_H
#define MT_RUNTIME_TOKENIZER_CHARSMAP_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class Charsmap {
public:
  /// Errors: the bytes are cut short, or are no such map.
  static Result<Charsmap> read(std::string_view bytes);

  struct Found {
    size_t length = 0; ///< bytes that are replaced
    std::string_view replacement;
  };
  /// The longest entry, or the shortest, that `text` begins with.
  std::optional<Found> longest(std::string_view text) const { return find(text, true); }
  std::optional<Found> shortest(std::string_view text) const { return find(text, false); }

private:
  std::optional<Found> find(std::string_view text, bool longest) const;
  std::vector<uint32_t> units;
  std::string replacements; ///< with a zero byte at the end
};

} // namespace mt::tokenizer
#endif
