#include "runtime/jinja/Literals.h"

#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

bool isDigit(char c, int base = 10) {
  if (base == 16 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'))
    return true;
  return c >= '0' && c < '0' + std::min(base, 10);
}

/// Digits with single underscores between them, from `at`.
size_t digitsFrom(std::string_view text, size_t at, int base = 10) {
  size_t end = at;
  while (at < text.size() && isDigit(text[at], base)) {
    end = ++at;
    if (at + 1 < text.size() && text[at] == '_' && isDigit(text[at + 1], base))
      ++at;
  }
  return end;
}

size_t exponentFrom(std::string_view text, size_t at) {
  if (at >= text.size() || (text[at] | 0x20) != 'e')
    return at;
  size_t digits = at + 1;
  if (digits < text.size() && (text[digits] == '+' || text[digits] == '-'))
    ++digits;
  size_t end = digitsFrom(text, digits);
  return end > digits ? end : at;
}

size_t prefixedFrom(std::string_view text) {
  if (text.size() < 3 || text[0] != '0')
    return 0;
  const char kind = static_cast<char>(text[1] | 0x20);
  const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  const size_t first = text[2] == '_' ? 3 : 2;
  size_t end = base != 0 ? digitsFrom(text, first, base) : first;
  return end > first ? end : 0;
}

/// The code point that `count` hexadecimal digits name.
Result<char32_t> hexadecimal(std::string_view text, size_t &at, size_t count) {
  char32_t c = 0;
  for (size_t end = at + count; at < end; ++at) {
    if (at >= text.size() || !isDigit(text[at], 16))
      return fail("an escape in a text needs {} hexadecimal digits", count);
    c = c * 16 + static_cast<char32_t>(isDigit(text[at]) ? text[at] - '0' : (text[at] | 0x20) - 'a' + 10);
  }
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
    return fail("an escape in a text names no character: U+{:04X}", static_cast<uint32_t>(c));
  return c;
}

/// Reads what stands after a backslash at `at`.
Status readEscape(std::string_view text, size_t &at, std::string &to) {
  static constexpr std::string_view kLetters = "nrtabfv\\'\"", kMeanings = "\n\r\t\a\b\f\v\\'\"";
  const char c = text[at];
  if (size_t which = kLetters.find(c); which != std::string_view::npos) {
    to += kMeanings[which];
    ++at;
    return {};
  }
  if (c == '\n') {
    ++at;
    return {};
  }
  if (isDigit(c, 8)) {
    char32_t value = 0;
    for (size_t end = std::min(text.size(), at + 3); at < end && isDigit(text[at], 8); ++at)
      value = value * 8 + static_cast<char32_t>(text[at] - '0');
    append(to, value);
    return {};
  }
  if (c == 'N')
    return fail("the escape \\N in a text is not supported; write the character itself");
  if (c != 'x' && c != 'u' && c != 'U') { // no escape: the backslash stays
    to += '\\';
    return {};
  }
  MT_ASSIGN(char32_t value, hexadecimal(text, ++at, c == 'x' ? 2 : c == 'u' ? 4 : 8));
  append(to, value);
  return {};
}

} // namespace

NumberLength numberAt(std::string_view text, bool afterDot) {
  if (size_t end = prefixedFrom(text))
    return {end, false};
  const size_t whole = digitsFrom(text, 0);
  if (whole == 0)
    return {};
  size_t end = whole;
  if (end + 1 < text.size() && text[end] == '.' && isDigit(text[end + 1]))
    end = digitsFrom(text, end + 1);
  end = exponentFrom(text, end);
  if (end > whole && !afterDot)
    return {end, true};
  return {text[0] == '0' ? std::max<size_t>(1, std::min(text.find_first_not_of("0_"), whole)) : whole, false};
}

Result<std::string> unescaped(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    size_t next = std::min(text.find('\\', at), text.size());
    made += text.substr(at, next - at);
    if (at = next + 1; next < text.size())
      MT_TRY(at < text.size() ? readEscape(text, at, made) : fail("a text ends with a backslash"));
  }
  return made;
}

} // namespace mt::jinja
