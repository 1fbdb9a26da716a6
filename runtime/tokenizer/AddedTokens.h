// Tokens that are found in a text before anything else looks at it: "<|endoftext|>", "[MASK]". Those of which the file
// says "normalized" are found in the normalized text, all others in the text as it is.
#ifndef MT_RUNTIME_TOKENIZER_ADDEDTOKENS_H
#define MT_RUNTIME_TOKENIZER_ADDEDTOKENS_H

#include "runtime/tokenizer/Model.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/Trie.h"

namespace mt::tokenizer {

class AddedTokens {
public:
  /// Of the field "added_tokens". A token that the model has keeps the model's id, any other must have the one that the
  /// package would give it: the next. Errors name what is wrong.
  Status read(const Fields &fields, const Model &model, const std::vector<NormalizerPtr> &normalizers);

  struct Token {
    std::string content; ///< as the file has it
    std::string form;    ///< as it stands in the text where it is found
    uint32_t id = 0;
    bool special = false, singleWord = false, spaceBefore = false, spaceAfter = false, normalized = false;
  };
  /// The token of an id, or nothing.
  const Token *token(uint32_t id) const;
  std::optional<uint32_t> find(std::string_view content) const;
  uint32_t end() const;
  bool isSpecial(std::string_view content) const;

  /// Cuts a text at its tokens: text(begin, end) for what lies between, not empty, and token(id, end), in order, until
  /// one returns false; `end` is where the token ends, with the spaces that it takes. `normalized`: which of the
  /// tokens.
  template <typename Text, typename Found>
  bool each(std::string_view text, bool normalized, Text between, Found found) const {
    const Trie &trie = tries[normalized];
    size_t done = 0;
    if (!trie.empty())
      for (size_t at = 0; at < text.size();) {
        std::optional<Place> place = trie.begins(text[at]) ? placeAt(trie, text, at) : std::nullopt;
        if (!place) {
          ++at;
          continue;
        }
        at = place->next;
        if (!place->counts)
          continue;
        size_t begin = std::max(place->begin, done);
        if ((begin > done && !between(done, begin)) || !found(tokens[place->token].id, place->end))
          return false;
        done = place->end;
      }
    return done >= text.size() || between(done, text.size());
  }

private:
  struct Place {
    size_t token, begin, end; ///< with the spaces that it takes
    size_t next;              ///< where the search goes on
    bool counts;              ///< not one that must stand alone and does not
  };
  std::optional<Place> placeAt(const Trie &trie, std::string_view text, size_t at) const;
  std::vector<Token> tokens;
  Trie tries[2]; ///< numbers of tokens; of those found in the text as it is, and in the normalized one
};

} // namespace mt::tokenizer
#endif
