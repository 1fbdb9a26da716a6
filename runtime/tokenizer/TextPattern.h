// What tokenizer.json calls a pattern, {"String": ".."} or {"Regex": ".."}, and where it occurs.
#ifndef MT_RUNTIME_TOKENIZER_TEXTPATTERN_H
#define MT_RUNTIME_TOKENIZER_TEXTPATTERN_H

#include "runtime/tokenizer/Fields.h"
#include "runtime/tokenizer/Regex.h"

namespace mt::tokenizer {

class TextPattern {
public:
  /// Out of the field "pattern". Errors name the place.
  static Result<TextPattern> read(const Fields &fields);
  static Result<TextPattern> regex(std::string_view expression);

  /// Calls match(begin, end) for each occurrence in order, until it returns false. Errors: the expression gave up.
  template <typename Match> Status each(std::string_view text, RegexMemory &memory, Match match) const {
    if (!expression) {
      for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size())
        if (!match(at, at + literal.size()))
          return Status();
      return Status();
    }
    Matches matches(*expression, text, memory);
    while (true) {
      auto found = matches.next();
      if (!found.ok())
        return found.status();
      if (!*found || !match((*found)->begin, (*found)->end))
        return Status();
    }
  }

private:
  std::string literal;
  std::optional<Regex> expression;
};

} // namespace mt::tokenizer
#endif
