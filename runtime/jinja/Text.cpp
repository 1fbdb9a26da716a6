#include "runtime/jinja/Text.h"

#include "runtime/jinja/Characters.h"

#include <algorithm>

namespace mt::jinja {
namespace {

/// Lines end at these, and at \r\n.
bool endsLine(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/// The byte where the character before `end` begins.
size_t before(std::string_view text, size_t end) {
  do
    --end;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80);
  return end;
}

bool contains(std::string_view set, char32_t wanted) {
  for (size_t at = 0; at < set.size();)
    if (nextCodePoint(set, at) == wanted)
      return true;
  return false;
}

template <typename Drops> std::string_view withoutLeft(std::string_view text, Drops drops) {
  for (size_t at = 0; !text.empty(); at = 0) {
    if (!drops(nextCodePoint(text, at)))
      break;
    text.remove_prefix(at);
  }
  return text;
}

template <typename Drops> std::string_view withoutRight(std::string_view text, Drops drops) {
  while (!text.empty()) {
    size_t begin = before(text, text.size()), at = begin;
    if (!drops(nextCodePoint(text, at)))
      break;
    text = text.substr(0, begin);
  }
  return text;
}

/// Python's rule of a final sigma: after a letter, and not before one.
bool endsWord(std::string_view text, size_t at, size_t next) {
  bool letterBefore = false;
  for (size_t i = at; i > 0 && !letterBefore;) {
    size_t begin = before(text, i), after = begin;
    char32_t c = nextCodePoint(text, after);
    if (!ignoresCase(c) && !isCased(c))
      break;
    letterBefore = !ignoresCase(c);
    i = begin;
  }
  if (!letterBefore)
    return false;
  while (next < text.size()) {
    char32_t c = nextCodePoint(text, next);
    if (!ignoresCase(c))
      return !isCased(c);
  }
  return true;
}

/// Appends the character at `at` in lower case, and gives the byte after it.
size_t appendLower(std::string &to, std::string_view text, size_t at) {
  size_t next = at;
  char32_t c = nextCodePoint(text, next);
  if (c == U'Σ')
    append(to, endsWord(text, at, next) ? U'ς' : U'σ');
  else
    appendCase(to, c, Case::Lower);
  return next;
}

} // namespace

char32_t nextCodePoint(std::string_view text, size_t &at) {
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const size_t begin = at, length = std::min(lengthOfLead(text[at]), text.size() - at);
  at += length;
  if (length == 1)
    return byte(begin);
  char32_t c = byte(begin) & (0xff >> (length + 1));
  for (size_t i = begin + 1; i < at; ++i)
    c = c << 6 | (byte(i) & 0x3f);
  return c;
}

void append(std::string &text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xc0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xe0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (c & 0x3f));
  }
}

size_t codePoints(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

size_t byteOf(std::string_view text, size_t number) {
  size_t at = 0;
  for (; number > 0 && at < text.size(); --number)
    at = std::min(text.size(), at + lengthOfLead(text[at]));
  return at;
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    nextCodePoint(text, at);
    all.push_back(text.substr(begin, at - begin));
  }
  return all;
}

bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::string_view strippedLeft(std::string_view text) { return withoutLeft(text, isSpace); }
std::string_view strippedRight(std::string_view text) { return withoutRight(text, isSpace); }
std::string_view strippedLeft(std::string_view text, std::string_view of) {
  return withoutLeft(text, [&](char32_t c) { return contains(of, c); });
}
std::string_view strippedRight(std::string_view text, std::string_view of) {
  return withoutRight(text, [&](char32_t c) { return contains(of, c); });
}

std::vector<std::string_view> words(std::string_view text, size_t most) {
  std::vector<std::string_view> all;
  for (text = strippedLeft(text); !text.empty(); text = strippedLeft(text)) {
    size_t end = 0, next = 0;
    while (end < text.size() && !isSpace(nextCodePoint(text, next)))
      end = next;
    if (most-- == 0)
      end = text.size();
    all.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return all;
}

std::vector<std::string_view> wordsFromRight(std::string_view text, size_t most) {
  std::vector<std::string_view> all;
  for (text = strippedRight(text); !text.empty(); text = strippedRight(text)) {
    size_t begin = text.size();
    while (begin > 0) {
      size_t at = before(text, begin), next = at;
      if (isSpace(nextCodePoint(text, next)))
        break;
      begin = at;
    }
    if (most-- == 0)
      begin = 0;
    all.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::ranges::reverse(all);
  return all;
}

std::vector<std::string_view> split(std::string_view text, std::string_view by, size_t most) {
  std::vector<std::string_view> all;
  for (size_t found = text.find(by); found != std::string_view::npos && most-- > 0; found = text.find(by)) {
    all.push_back(text.substr(0, found));
    text.remove_prefix(found + by.size());
  }
  all.push_back(text);
  return all;
}

std::vector<std::string_view> splitFromRight(std::string_view text, std::string_view by, size_t most) {
  std::vector<std::string_view> all;
  for (size_t found = text.rfind(by); found != std::string_view::npos && most-- > 0; found = text.rfind(by)) {
    all.push_back(text.substr(found + by.size()));
    text = text.substr(0, found);
  }
  all.push_back(text);
  std::ranges::reverse(all);
  return all;
}

std::vector<std::string_view> lines(std::string_view text, bool keepEnds) {
  std::vector<std::string_view> all;
  for (size_t begin = 0, at = 0; begin < text.size(); begin = at) {
    size_t end = at = begin;
    while (at < text.size()) {
      char32_t c = nextCodePoint(text, at);
      if (endsLine(c)) {
        at += c == '\r' && at < text.size() && text[at] == '\n';
        break;
      }
      end = at;
    }
    all.push_back(text.substr(begin, (keepEnds ? at : end) - begin));
  }
  return all;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to, size_t most) {
  std::string made;
  if (from.empty()) {
    for (std::string_view one : characters(text)) {
      if (most > 0 && most--)
        made += to;
      made += one;
    }
    return most > 0 ? made.append(to) : made;
  }
  for (size_t found = text.find(from); found != std::string_view::npos && most-- > 0; found = text.find(from)) {
    made.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
  }
  return made.append(text);
}

size_t occurrences(std::string_view text, std::string_view of) {
  if (of.empty())
    return codePoints(text) + 1;
  size_t count = 0;
  for (size_t at = text.find(of); at != std::string_view::npos; at = text.find(of, at + of.size()))
    ++count;
  return count;
}

std::string upper(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();)
    appendCase(made, nextCodePoint(text, at), Case::Upper);
  return made;
}

std::string lower(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();)
    at = appendLower(made, text, at);
  return made;
}

std::string capitalized(std::string_view text) {
  std::string made;
  size_t at = 0;
  if (!text.empty())
    appendCase(made, nextCodePoint(text, at), Case::Title);
  while (at < text.size())
    at = appendLower(made, text, at);
  return made;
}

std::string titled(std::string_view text) {
  std::string made;
  bool inWord = false;
  for (size_t at = 0; at < text.size();) {
    size_t next = at;
    char32_t c = nextCodePoint(text, next);
    if (inWord)
      appendLower(made, text, at);
    else
      appendCase(made, c, Case::Title);
    inWord = isCased(c);
    at = next;
  }
  return made;
}

std::string caseSwapped(std::string_view text) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    size_t next = at;
    char32_t c = nextCodePoint(text, next);
    if (isUpper(c))
      appendLower(made, text, at);
    else
      appendCase(made, c, isLower(c) ? Case::Upper : Case::Lower);
    at = next;
  }
  return made;
}

} // namespace mt::jinja
