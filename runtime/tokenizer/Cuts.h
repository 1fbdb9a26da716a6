// Where a text may be cut without changing its tokens: before a space, "▁" or line feed that stands in no token behind
// the character before it. So texts that no pre-tokenizer cuts into words are words all the same, and a table knows
// them.
#ifndef MT_RUNTIME_TOKENIZER_CUTS_H
#define MT_RUNTIME_TOKENIZER_CUTS_H

#include "runtime/tokenizer/Vocabulary.h"

#include <array>
#include <set>

namespace mt::tokenizer {

class Cuts {
public:
  /// Of a model that makes its tokens of these.
  void learn(const Vocabulary &tokens);

  /// Bytes up to the first place where a text may be cut; all of it where there is none.
  size_t first(std::string_view text, const Vocabulary &tokens) const;

private:
  static constexpr std::array<std::string_view, 3> kStarts = {" ", "\xe2\x96\x81", "\n"};
  static size_t startAt(std::string_view text, size_t at);
  std::array<bool, kStarts.size()> allowed = {};                         ///< which of them are tokens themselves
  std::array<std::set<std::string, std::less<>>, kStarts.size()> inside; ///< what stands before them in a token
};

} // namespace mt::tokenizer
#endif
