#include "runtime/tokenizer/RegexDialect.h"

#include "runtime/base/Utf8.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

namespace mt::tokenizer {
namespace {

/// Ruby's \w: letters, marks, decimal digits, connectors. PCRE2's leaves out marks, and of connectors all but "_".
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
/// Outside of classes Oniguruma counts Latin-1's other numbers in: its table for them is another.
constexpr std::string_view kWordAlone = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr size_t kLongest = 1 << 16;
constexpr size_t kDeepest = 200;

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translator {
public:
  explicit Translator(std::string_view text) : text(text) {}

  Result<std::string> run() {
    while (at < text.size())
      MT_TRY(item());
    if (!groups.empty())
      return refuse("a group that is not closed", text.size());
    return out;
  }

private:
  std::string_view text;
  size_t at = 0;
  std::string out;
  size_t atom = std::string::npos; ///< where in `out` what a quantifier would repeat begins
  std::vector<size_t> groups;      ///< where those that are open begin

  Status refuse(std::string_view what, size_t begin) const {
    return fail("the regular expression {}: {} is not supported (at byte {})", text, what, begin);
  }
  Status refusePart(size_t begin, size_t end) const {
    return refuse(text.substr(begin, std::max(end, begin + 1) - begin), begin);
  }
  bool have(size_t more = 0) const { return at + more < text.size(); }
  bool take(std::string_view word) {
    if (!text.substr(at).starts_with(word))
      return false;
    at += word.size();
    return true;
  }

  Status item() {
    char c = text[at];
    if (c == '(')
      return open();
    if (c == ')')
      return close();
    if (c == '*' || c == '+' || c == '?' || c == '{')
      return quantifier();
    if (c == '|' || c == '^' || c == '$') {
      out += text[at++];
      atom = std::string::npos;
      return Status();
    }
    atom = out.size();
    if (c == '[')
      return characterClass();
    if (c == '\\')
      return escape();
    if (c == ']' || c == '}')
      out += '\\';
    size_t length = lengthOf(c);
    out += text.substr(at, length);
    at += length;
    return Status();
  }

  Status open() {
    size_t begin = at;
    if (groups.size() >= kDeepest)
      return refuse("nesting this deep", at);
    for (std::string_view head : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (take(head)) {
        groups.push_back(out.size());
        out += head;
        atom = std::string::npos;
        return Status();
      }
    if (take("(?i)")) { // until the end of the group, branches included: as in PCRE2 where it stands first
      bool first = begin == 0 || text[begin - 1] == '(' || text[begin - 1] == ':';
      if (!first)
        return refusePart(begin, at);
      out += "(?i)";
      return Status();
    }
    if (text.substr(at).starts_with("(?") || text.substr(at).starts_with("(*"))
      return refusePart(begin, std::min(begin + 4, text.size()));
    ++at;
    groups.push_back(out.size());
    out += "(?:";
    atom = std::string::npos;
    return Status();
  }

  Status close() {
    if (groups.empty())
      return refuse("a \")\" without its \"(\"", at);
    atom = groups.back();
    groups.pop_back();
    out += ')';
    ++at;
    return Status();
  }

  /// {n}, {n,}, {n,m} or {,m}: the numbers, and where it ends; nothing where the brace is a character.
  struct Count {
    std::string least, most;
    bool comma = false;
    size_t end = 0;
  };
  std::optional<Count> countAt(size_t from) const {
    Count count;
    size_t i = from + 1;
    for (; i < text.size() && isDigit(text[i]); ++i)
      count.least += text[i];
    if (i < text.size() && text[i] == ',') {
      count.comma = true;
      for (++i; i < text.size() && isDigit(text[i]); ++i)
        count.most += text[i];
    }
    if (i >= text.size() || text[i] != '}' || (count.least.empty() && count.most.empty()))
      return std::nullopt;
    count.end = i + 1;
    return count;
  }

  Status quantifier() {
    size_t begin = at;
    std::optional<Count> count = text[at] == '{' ? countAt(at) : std::nullopt;
    if (text[at] == '{' && !count) {
      atom = out.size();
      out += "\\{";
      ++at;
      return Status();
    }
    if (atom == std::string::npos)
      return refuse("a quantifier of nothing", at);
    if (count) {
      out += fmt::format("{{{}{}{}}}", count->least.empty() ? "0" : count->least, count->comma ? "," : "", count->most);
      at = count->end;
      if (have() && text[at] == '?') {
        if (!count->comma) // Ruby takes it for "perhaps so many"
          return refusePart(begin, at + 1);
        out += text[at++];
      } else if (have() && text[at] == '+') { // Ruby repeats the whole
        out.insert(atom, "(?:");
        out += ")+";
        ++at;
      }
    } else {
      out += text[at++];
      if (have() && (text[at] == '?' || text[at] == '+'))
        out += text[at++];
    }
    if (have() && (text[at] == '*' || text[at] == '+' || text[at] == '?'))
      return refusePart(begin, at + 1);
    return Status();
  }

  /// After a backslash, outside of a class.
  Status escape() {
    size_t begin = at;
    char c = have(1) ? text[at + 1] : '\0';
    if (c == 'b' || c == 'B') {
      at += 2;
      out += c == 'b' ? fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWordAlone)
                      : fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWordAlone);
      atom = std::string::npos;
      return Status();
    }
    if (c == 'A' || c == 'z' || c == 'Z') {
      at += 2;
      out += {'\\', c};
      atom = std::string::npos;
      return Status();
    }
    if (c == 'w' || c == 'W') {
      at += 2;
      out += fmt::format("[{}{}]", c == 'W' ? "^" : "", kWordAlone);
      return Status();
    }
    return member(begin);
  }

  /// An escape that means the same in a class and outside of it.
  Status member(size_t begin) {
    char c = have(1) ? text[at + 1] : '\0';
    at += 2;
    switch (c) {
    case 's':
      out += R"(\p{White_Space})";
      return Status();
    case 'S':
      out += R"(\P{White_Space})";
      return Status();
    case 'd':
      out += R"(\p{Nd})";
      return Status();
    case 'D':
      out += R"(\P{Nd})";
      return Status();
    case 'p':
    case 'P':
      return property(begin, c);
    case 'v':
      out += R"(\x{0b})";
      return Status();
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'a':
    case 'e':
      out += {'\\', c};
      return Status();
    case 'x':
    case 'u':
      return number(begin, c);
    default:
      break;
    }
    if (c == '\0' || isLetter(c) || isDigit(c))
      return refusePart(begin, at);
    if (static_cast<uint8_t>(c) >= 0x80) {
      --at;
      size_t length = lengthOf(c);
      out += text.substr(at, length);
      at += length;
    } else {
      out += {'\\', c};
    }
    return Status();
  }

  Status property(size_t begin, char letter) {
    size_t end = text.find('}', at);
    if (!have() || text[at] != '{' || end == std::string_view::npos)
      return refusePart(begin, at);
    std::string_view name = text.substr(at + 1, end - at - 1);
    at = end + 1;
    bool negated = name.starts_with('^');
    if (negated)
      name.remove_prefix(1);
    if (name.empty() || !std::ranges::all_of(name, [](char c) { return isLetter(c) || c == '_'; }))
      return refusePart(begin, at);
    constexpr std::array<std::string_view, 6> kBinary = {"Alphabetic", "White_Space", "Emoji", "Extended_Pictographic",
                                                         "Any",        "Ideographic"};
    bool plain = name.size() <= 2 || std::ranges::find(kBinary, name) != kBinary.end();
    out += fmt::format("\\{}{{{}{}{}}}", letter, negated ? "^" : "", plain ? "" : "sc:", name);
    return Status();
  }

  /// \xHH, \x{H...}, \uHHHH
  Status number(size_t begin, char letter) {
    std::string_view digits;
    if (letter == 'x' && have() && text[at] == '{') {
      size_t end = std::min(text.find('}', at), text.size());
      digits = text.substr(at + 1, end - at - 1);
      at = std::min(end + 1, text.size());
    } else {
      digits = text.substr(at, letter == 'x' ? 2 : 4);
      at += digits.size();
      if (letter == 'u' && digits.size() != 4)
        return refusePart(begin, at);
    }
    uint32_t value = 0;
    auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    bool good = error == std::errc() && rest == digits.data() + digits.size() && value < 0x110000 &&
                (value < 0xd800 || value >= 0xe000);
    if (!good || (letter == 'x' && digits.size() == 2 && text[at - 1] != '}' && value >= 0x80)) // a byte
      return refusePart(begin, at);
    out += fmt::format("\\x{{{:x}}}", value);
    return Status();
  }

  Status characterClass() {
    size_t begin = at;
    out += text[at++];
    if (have() && text[at] == '^')
      out += text[at++];
    if (have() && text[at] == ']')
      return refuse("a class that begins with \"]\"", begin);
    while (have() && text[at] != ']') {
      if (text[at] == '[') {
        MT_TRY(namedClass());
      } else if (text.substr(at).starts_with("&&")) {
        return refuse("\"&&\" in a class", at);
      } else if (text[at] == '\\') {
        char c = have(1) ? text[at + 1] : '\0';
        if (c == 'w') {
          out += kWord;
          at += 2;
        } else if (c == 'b') {
          out += R"(\x{08})";
          at += 2;
        } else {
          MT_TRY(member(at));
        }
      } else {
        size_t length = lengthOf(text[at]);
        out += text.substr(at, length);
        at += length;
      }
    }
    if (!have())
      return refuse("a class that is not closed", begin);
    out += text[at++];
    return Status();
  }

  /// [:alpha:] and the like, inside of a class.
  Status namedClass() {
    size_t begin = at;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames = {
        {{"[:alpha:]", R"(\p{Alphabetic})"},
         {"[:digit:]", R"(\p{Nd})"},
         {"[:alnum:]", R"(\p{Alphabetic}\p{Nd})"},
         {"[:space:]", R"(\p{White_Space})"},
         {"[:upper:]", R"(\p{Uppercase})"},
         {"[:lower:]", R"(\p{Lowercase})"}}};
    for (auto [name, meaning] : kNames)
      if (take(name)) {
        out += meaning;
        return Status();
      }
    return refuse("\"[\" in a class", begin);
  }
};

} // namespace

Result<std::string> translateRegex(std::string_view expression) {
  if (expression.size() > kLongest)
    return fail("a regular expression of {} bytes is too long: {} are allowed", expression.size(), kLongest);
  if (!isUtf8(expression) || expression.find('\0') != std::string_view::npos)
    return fail("a regular expression is not UTF-8 text");
  return Translator(expression).run();
}

} // namespace mt::tokenizer
