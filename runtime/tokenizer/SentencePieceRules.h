// How SentencePiece rewrites a text before it cuts it: its map of characters, spaces that become "▁", a "▁" in front.
#ifndef MT_RUNTIME_TOKENIZER_SENTENCEPIECERULES_H
#define MT_RUNTIME_TOKENIZER_SENTENCEPIECERULES_H

#include "runtime/tokenizer/Charsmap.h"
#include "runtime/tokenizer/Trie.h"

namespace mt::tokenizer {

inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

struct SentencePieceRules {
  std::optional<Charsmap> map;
  Trie fixed; ///< pieces that users defined: they stay as they are
  bool spaceFirst = true, singleSpaces = true, markSpaces = true, spacesBehind = false;

  /// The text rewritten. Bytes that are not UTF-8 become U+FFFD, each one.
  std::string apply(std::string_view text) const;

private:
  struct Step {
    size_t length;
    std::string_view text;
  };
  Step step(std::string_view rest) const;
};

/// Bytes of the longest of the trie's texts that `text` begins with; 0 where it begins with none.
size_t longestOf(const Trie &trie, std::string_view text);

} // namespace mt::tokenizer
#endif
