#include "runtime/train/RecipeReader.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <charconv>

namespace mt::train {
namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isBareKey(char c) {
  return isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}
bool isControl(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

/// Takes digits off the front, single underscores between them; false where there are none, or not so.
bool takeDigits(std::string_view &text) {
  size_t at = 0;
  while (at < text.size() && (isDigit(text[at]) || (text[at] == '_' && at > 0 && text[at - 1] != '_')))
    ++at;
  if (at == 0 || text[at - 1] == '_')
    return false;
  text.remove_prefix(at);
  return true;
}

bool takeSign(std::string_view &text) {
  const bool has = text.starts_with('+') || text.starts_with('-');
  text.remove_prefix(has ? 1 : 0);
  return has;
}

/// A whole number of another base, with its prefix.
std::optional<std::string> otherBase(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : 2;
  std::string digits;
  for (size_t i = 2; i < text.size(); ++i)
    if (text[i] != '_')
      digits += text[i];
    else if (i == 2 || i + 1 == text.size() || text[i - 1] == '_')
      return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size() || digits.starts_with('-'))
    return std::nullopt;
  return fmt::format("{}", value);
}

class Reader {
public:
  explicit Reader(std::string_view text) : text(text) {}

  Result<std::vector<SaidOption>> all() {
    std::vector<SaidOption> options;
    for (Status taken; !isAtEnd();) {
      taken = entry(options);
      if (!taken)
        return taken.within(fmt::format("line {}", 1 + std::count(text.begin(), text.begin() + at, '\n')));
    }
    return options;
  }

private:
  bool isAtEnd() const { return static_cast<size_t>(at) >= text.size(); }
  char next() const { return isAtEnd() ? '\0' : text[static_cast<size_t>(at)]; }
  std::string_view rest() const { return text.substr(static_cast<size_t>(at)); }
  bool take(std::string_view word) {
    const bool has = rest().starts_with(word);
    at += has ? static_cast<ptrdiff_t>(word.size()) : 0;
    return has;
  }
  bool takeNewline() { return take("\n") || take("\r\n"); }

  void skipSpaces() {
    while (next() == ' ' || next() == '\t')
      ++at;
  }

  Status skipComment() {
    if (next() != '#')
      return Status();
    while (!isAtEnd() && next() != '\n' && !rest().starts_with("\r\n"))
      if (isControl(text[static_cast<size_t>(at++)]))
        return fail("a comment with a control character");
    return Status();
  }

  /// A line: nothing, or KEY = VALUE; and a comment.
  Status entry(std::vector<SaidOption> &options) {
    skipSpaces();
    if (next() == '[')
      return fail("a table: keys of a recipe stand in none");
    if (next() != '#' && next() != '\n' && next() != '\r' && !isAtEnd()) {
      MT_ASSIGN(SaidOption option, keyAndValue());
      if (std::ranges::find(options, option.key, &SaidOption::key) != options.end())
        return fail("'{}' is there twice", option.key);
      options.push_back(std::move(option));
      skipSpaces();
    }
    MT_TRY(skipComment());
    if (!isAtEnd() && !takeNewline())
      return fail("something behind the value: a line is KEY = VALUE, text in quotes");
    return Status();
  }

  Result<SaidOption> keyAndValue() {
    MT_ASSIGN(const std::string name, key());
    skipSpaces();
    if (next() == '.')
      return fail("'{}' is a table: keys of a recipe stand in none", name);
    if (!take("="))
      return fail("no = behind '{}': a line is KEY = VALUE", name);
    skipSpaces();
    SaidOption option{name, {}};
    Status taken = next() == '[' ? array(option.words) : value(option);
    return taken ? Result<SaidOption>(std::move(option)) : taken.within(fmt::format("'{}'", name));
  }

  Result<std::string> key() {
    if (next() == '"' || next() == '\'')
      return quoted(1);
    const ptrdiff_t begin = at;
    while (isBareKey(next()))
      ++at;
    if (at == begin)
      return fail("no key: a line is KEY = VALUE");
    return std::string(text.substr(static_cast<size_t>(begin), static_cast<size_t>(at - begin)));
  }

  Status value(SaidOption &option) {
    option.isFlag = take("true");
    if (option.isFlag || take("false")) {
      option.words = {option.isFlag ? "true" : "false"};
      option.isFlag = true;
      return isBareKey(next()) ? fail("neither true nor false: text stands in quotes") : Status();
    }
    MT_ASSIGN(std::string taken, word());
    option.words.push_back(std::move(taken));
    return Status();
  }

  /// With the bracket in front.
  Status array(std::vector<std::string> &words) {
    ++at;
    while (true) {
      MT_TRY(skipLines());
      if (take("]"))
        break;
      MT_ASSIGN(std::string taken, word());
      words.push_back(std::move(taken));
      MT_TRY(skipLines());
      if (!take(",") && next() != ']')
        return fail("an array whose entries are not parted by commas, or without its end");
    }
    return words.empty() ? fail("an array without entries: leave it out") : Status();
  }

  Status skipLines() {
    do {
      skipSpaces();
      MT_TRY(skipComment());
    } while (takeNewline());
    return Status();
  }

  /// Text, or a number.
  Result<std::string> word() {
    if (next() == '"' || next() == '\'')
      return quoted(rest().starts_with("\"\"\"") || rest().starts_with("'''") ? 3 : 1);
    const ptrdiff_t begin = at;
    while (isBareKey(next()) || next() == '+' || next() == '.' || next() == ':')
      ++at;
    const std::string_view found = text.substr(static_cast<size_t>(begin), static_cast<size_t>(at - begin));
    if (std::optional<std::string> number = numberWord(found))
      return *number;
    return fail(
        "no value that an option has: text in quotes, a number, true or false, or an array of text and numbers");
  }

  /// Text between so many quotes of its kind, which is taken.
  Result<std::string> quoted(size_t count) {
    const std::string quote(count, next());
    const bool isLiteral = next() == '\'', isLong = count == 3;
    take(quote);
    if (isLong)
      takeNewline();
    std::string found;
    while (!isAtEnd()) {
      if (rest().starts_with(quote)) {
        for (int more = 0; isLong && more < 2 && rest().substr(1).starts_with(quote); ++more)
          found += text[static_cast<size_t>(at++)];
        take(quote);
        return found;
      }
      if (next() == '\\' && !isLiteral)
        MT_TRY(escape(found, isLong));
      else if (isControl(next()) && !(isLong && (next() == '\n' || rest().starts_with("\r\n"))))
        return fail("text with a control character, or without its end: write \\n and \\u0001 in double quotes");
      else
        found += text[static_cast<size_t>(at++)];
    }
    return fail("text without its end: {} is missing", quote);
  }

  /// What stands behind a backslash, appended.
  Status escape(std::string &found, bool isLong) {
    constexpr std::string_view kNames = "btnfr\"\\", kMeanings = "\b\t\n\f\r\"\\";
    ++at;
    if (take("u"))
      return codePoint(found, 4);
    if (take("U"))
      return codePoint(found, 8);
    if (const size_t name = kNames.find(next()); !isAtEnd() && name != std::string_view::npos) {
      found += kMeanings[name];
      ++at;
      return Status();
    }
    skipSpaces();
    if (!isLong || !takeNewline())
      return fail("text with a backslash that means nothing: write two, or use single quotes");
    do
      skipSpaces();
    while (takeNewline());
    return Status();
  }

  /// In so many hexadecimal digits; as UTF-8 (RFC 3629).
  Status codePoint(std::string &found, size_t digits) {
    uint32_t code = 0;
    const std::string_view all = rest().substr(0, digits);
    const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), code, 16);
    if (all.size() < digits || error != std::errc() || end != all.data() + all.size() || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000) || code == 0)
      return fail("text with a \\u that is no character which options have");
    at += static_cast<ptrdiff_t>(digits);
    const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
    found += static_cast<char>(kFirst[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i)
      found += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
    return Status();
  }

  std::string_view text;
  ptrdiff_t at = 0;
};

} // namespace

Result<std::vector<SaidOption>> readRecipe(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) // a byte order mark
    text.remove_prefix(3);
  if (const std::optional<size_t> bad = firstBadByte(text))
    return fail("line {}: bytes that are not UTF-8",
                1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*bad), '\n'));
  return Reader(text).all();
}

std::optional<std::string> numberWord(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b"))
    return otherBase(text);
  std::string word;
  std::ranges::remove_copy(text, std::back_inserter(word), '_');
  if (word.starts_with('+'))
    word.erase(0, 1);
  takeSign(text);
  if (text == "inf" || text == "nan")
    return word;
  const bool hasZero = text.size() > 1 && text[0] == '0' && (isDigit(text[1]) || text[1] == '_');
  if (hasZero || !takeDigits(text))
    return std::nullopt;
  if (text.starts_with('.'))
    if (text.remove_prefix(1); !takeDigits(text))
      return std::nullopt;
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    takeSign(text);
    if (!takeDigits(text))
      return std::nullopt;
  }
  return text.empty() ? std::optional(word) : std::nullopt;
}

} // namespace mt::train
