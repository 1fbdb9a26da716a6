#include "runtime/jinja/Lexer.h"

#include "runtime/base/Utf8.h"
#include "runtime/jinja/Literals.h"
#include "runtime/jinja/Numbers.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

constexpr size_t kLongestTemplate = 4 << 20;

bool isNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Lines end with \n, and one end of the last line is dropped.
std::string normalized(std::string_view source) {
  std::string made;
  made.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    made += source[i] == '\r' ? '\n' : source[i];
    i += source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n';
  }
  if (made.ends_with('\n'))
    made.pop_back();
  return made;
}

class Lexer {
public:
  explicit Lexer(std::string_view source) : source(source) {}

  Result<std::vector<Token>> run() {
    while (at < source.size())
      if (Status status = readData(); !status.ok())
        return fail("line {}: {}", line(), status.message());
    add(Token::Kind::End, "");
    return std::move(tokens);
  }

private:
  std::string_view source;
  size_t at = 0, counted = 0;
  int lines = 1;
  bool startsLine = true; ///< what was read last ended a line
  std::vector<Token> tokens;
  std::string open; ///< brackets that are open, as their closing ones

  /// The line of `at`, which only grows.
  int line() {
    lines += static_cast<int>(
        std::count(source.begin() + static_cast<int64_t>(counted), source.begin() + static_cast<int64_t>(at), '\n'));
    counted = at;
    return lines;
  }

  Token &add(Token::Kind kind, std::string_view text) {
    tokens.push_back({.kind = kind, .line = line(), .text = std::string(text)});
    return tokens.back();
  }

  bool follows(std::string_view text) const { return source.substr(at).starts_with(text); }
  void skipSpace() { at = source.size() - strippedLeft(source.substr(at)).size(); }

  /// Data up to a tag, without the white space that the tag takes away.
  void addData(std::string_view text, char sign, bool block) {
    if (sign == '-') {
      text = strippedRight(text);
    } else if (sign != '+' && block) {
      size_t start = text.rfind('\n') + 1;
      if ((start > 0 || startsLine) && strippedLeft(text.substr(start)).empty())
        text = text.substr(0, start);
    }
    if (!text.empty())
      add(Token::Kind::Data, text);
  }

  /// Where the next tag opens, or the end.
  size_t nextTag() const {
    for (size_t tag = source.find('{', at); tag != std::string_view::npos; tag = source.find('{', tag + 1))
      if (tag + 1 < source.size() && (source[tag + 1] == '%' || source[tag + 1] == '{' || source[tag + 1] == '#'))
        return tag;
    return source.size();
  }

  /// Data and the tag behind it.
  Status readData() {
    const size_t begin = at, tag = nextTag();
    std::string_view text = source.substr(begin, tag - begin);
    if (tag == source.size()) {
      add(Token::Kind::Data, text);
      at = tag;
      return {};
    }
    const char kind = source[tag + 1], after = tag + 2 < source.size() ? source[tag + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    addData(text, sign, kind != '{');
    at = tag;
    line();
    if (kind == '%' && takeWord("{%", "raw"))
      return readRaw();
    at = tag + 2 + (sign != '\0');
    if (kind == '#')
      return readComment();
    add(kind == '{' ? Token::Kind::OutputBegin : Token::Kind::BlockBegin, "");
    return readTag(kind == '{');
  }

  /// Takes "{% WORD %}" with its signs and blanks, if it stands here; of raw the end is taken as it stands, of endraw
  /// as a block's.
  bool takeWord(std::string_view opening, std::string_view word) {
    const size_t begin = at;
    at += opening.size();
    if (follows("-") || follows("+"))
      ++at;
    skipSpace();
    if (follows(word)) {
      at += word.size();
      skipSpace();
      if (word == "raw" ? takeEnd("%}", false) : takeBlockEnd())
        return true;
    }
    at = begin;
    return false;
  }

  /// Takes the end of a tag: "-%}" with the white space behind it, or "%}" with a line's end, if those are trimmed.
  bool takeEnd(std::string_view end, bool trims) {
    if (follows("-") && source.substr(at + 1).starts_with(end)) {
      at += 1 + end.size();
      size_t before = at;
      skipSpace();
      startsLine = at > before && source[at - 1] == '\n';
      return true;
    }
    if (!follows(end))
      return false;
    at += end.size();
    startsLine = trims && follows("\n");
    at += startsLine;
    return true;
  }

  bool takeBlockEnd(std::string_view end = "%}") {
    if (follows("+") && source.substr(at + 1).starts_with(end)) {
      at += 1 + end.size();
      startsLine = false;
      return true;
    }
    return takeEnd(end, true);
  }

  Status readComment() {
    for (; at < source.size(); ++at)
      if (takeBlockEnd("#}"))
        return {};
    return fail("a comment has no end: '#}}' is missing");
  }

  Status readRaw() {
    for (const size_t begin = at; at < source.size(); ++at) {
      if (!follows("{%"))
        continue;
      const size_t tag = at;
      const char sign = tag + 2 < source.size() ? source[tag + 2] : '\0';
      const bool startedLine = startsLine;
      if (!takeWord("{%", "endraw"))
        continue;
      const size_t end = at;
      const bool endedLine = startsLine;
      startsLine = startedLine;
      at = begin;
      addData(source.substr(begin, tag - begin), sign, true);
      at = end;
      startsLine = endedLine;
      return {};
    }
    return fail("a raw block has no end: '{{% endraw %}}' is missing");
  }

  Status readTag(bool output) {
    open.clear();
    while (at < source.size()) {
      const size_t begin = at;
      if (open.empty() && (output ? takeEnd("}}", false) : takeBlockEnd())) {
        const size_t end = at;
        at = begin;
        add(output ? Token::Kind::OutputEnd : Token::Kind::BlockEnd, "");
        at = end;
        return {};
      }
      skipSpace();
      if (at == begin)
        MT_TRY(readToken());
    }
    return fail("a tag has no end: '{}' is missing", output ? "}}" : "%}");
  }

  Status readToken() {
    const char c = source[at];
    if (c == '\'' || c == '"')
      return readText(c);
    if (NumberLength number = numberAt(source.substr(at), at > 0 && source[at - 1] == '.'); number.bytes > 0)
      return readNumber(number);
    if (!isNameCharacter(c))
      return readOperator();
    size_t end = at;
    while (end < source.size() && isNameCharacter(source[end]))
      ++end;
    add(Token::Kind::Name, source.substr(at, end - at));
    at = end;
    return {};
  }

  Status readText(char quote) {
    size_t end = at + 1;
    while (end < source.size() && source[end] != quote)
      end += source[end] == '\\' ? 2 : 1;
    if (end >= source.size())
      return fail("a text has no end: {} is missing", quote);
    MT_ASSIGN(std::string text, unescaped(source.substr(at + 1, end - at - 1)));
    add(Token::Kind::Text, text);
    at = end + 1;
    return {};
  }

  Status readNumber(const NumberLength &number) {
    const std::string_view digits = source.substr(at, number.bytes);
    if (number.real) {
      add(Token::Kind::Real, digits).real = readFloat(digits).value_or(0);
    } else {
      MT_ASSIGN(std::optional<int64_t> value, readInteger(digits, 0));
      add(Token::Kind::Integer, digits).integer = value.value_or(0);
    }
    at += number.bytes;
    return {};
  }

  Status readOperator() {
    static constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    auto found = std::ranges::find_if(kOperators, [&](std::string_view one) { return follows(one); });
    if (found == std::end(kOperators))
      return fail("'{}' cannot stand in a tag", source.substr(at, lengthOfLead(source[at])));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (!open.ends_with(c))
        return fail("'{}' closes no bracket", c);
      open.pop_back();
    }
    add(Token::Kind::Operator, *found);
    at += found->size();
    return {};
  }
};

} // namespace

Result<std::vector<Token>> tokensOf(std::string_view source) {
  if (source.size() > kLongestTemplate)
    return fail("the template has {} bytes: more than the {} that are supported", source.size(), kLongestTemplate);
  if (std::optional<size_t> bad = firstBadByte(source))
    return fail("byte {} of the template is not UTF-8", *bad);
  const std::string text = normalized(source);
  return Lexer(text).run();
}

} // namespace mt::jinja
