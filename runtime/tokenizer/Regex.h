// Regular expressions as tokenizer.json has them (Oniguruma's Ruby syntax), matched by PCRE2 with its JIT compiler.
// What the two understand differently is translated (RegexDialect.h) or refused by name.
#ifndef MT_RUNTIME_TOKENIZER_REGEX_H
#define MT_RUNTIME_TOKENIZER_REGEX_H

#include "runtime/base/Status.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mt::tokenizer {

/// What matching needs besides the expression, for one thread at a time.
class RegexMemory {
public:
  RegexMemory();
  RegexMemory(RegexMemory &&) noexcept;
  ~RegexMemory();
  struct Parts;
  Parts &parts() { return *held; }

private:
  std::unique_ptr<Parts> held;
};

struct Match {
  size_t begin = 0, end = 0; ///< bytes
};

class Regex {
public:
  /// Compiles an expression. Errors say what in it is wrong or not supported.
  static Result<Regex> compile(std::string_view expression);
  Regex(Regex &&) noexcept;
  Regex &operator=(Regex &&) noexcept;
  ~Regex();

  /// The first match in valid UTF-8 at or after `from`, which lies between characters. Errors: it took too many steps.
  Result<std::optional<Match>> find(std::string_view text, size_t from, RegexMemory &memory) const;
  /// Whether it may match no character at all.
  bool mayBeEmpty() const;

private:
  struct Code;
  Regex(std::string expression, std::unique_ptr<Code> code);
  std::string expression;
  std::unique_ptr<Code> code;
};

/// The matches of an expression in a text, one after the other; an empty one right behind another match is none.
class Matches {
public:
  Matches(const Regex &regex, std::string_view text, RegexMemory &memory) : regex(regex), text(text), memory(memory) {}
  Result<std::optional<Match>> next();

private:
  const Regex &regex;
  std::string_view text;
  RegexMemory &memory;
  size_t from = 0;
  std::optional<size_t> lastEnd;
};

} // namespace mt::tokenizer
#endif
