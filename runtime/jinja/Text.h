// Text as Python sees it: a sequence of code points, with its white space, lines and cases. Texts are UTF-8 (checked
// where they come in); places are bytes here and code points in Python, which two functions translate.
#ifndef MT_RUNTIME_JINJA_TEXT_H
#define MT_RUNTIME_JINJA_TEXT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt::jinja {

/// Bytes of the character that begins with this one.
inline size_t lengthOfLead(char lead) {
  auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}
/// The character at a byte, and the byte after it.
char32_t nextCodePoint(std::string_view text, size_t &at);
void append(std::string &text, char32_t codePoint);

size_t codePoints(std::string_view text);
/// The byte where code point `number` begins; the end, if there are no more.
size_t byteOf(std::string_view text, size_t number);
/// The characters, each a text.
std::vector<std::string_view> characters(std::string_view text);

bool isSpace(char32_t codePoint);
/// The bytes of `text` without white space, or without characters of `of`, at its ends.
std::string_view strippedLeft(std::string_view text);
std::string_view strippedRight(std::string_view text);
std::string_view strippedLeft(std::string_view text, std::string_view of);
std::string_view strippedRight(std::string_view text, std::string_view of);
/// Words between white space: at most `most` cuts from the left, or from the right.
std::vector<std::string_view> words(std::string_view text, size_t most);
std::vector<std::string_view> wordsFromRight(std::string_view text, size_t most);
std::vector<std::string_view> split(std::string_view text, std::string_view by, size_t most);
std::vector<std::string_view> splitFromRight(std::string_view text, std::string_view by, size_t most);
/// Lines as str.splitlines cuts them.
std::vector<std::string_view> lines(std::string_view text, bool keepEnds);
/// At most `most` replacements. An empty `from` stands before every character and at the end.
std::string replaced(std::string_view text, std::string_view from, std::string_view to, size_t most);
size_t occurrences(std::string_view text, std::string_view of);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first character in upper case, the others in lower case.
std::string capitalized(std::string_view text);
/// Every letter after something that has no case in upper case, the others in lower case.
std::string titled(std::string_view text);
std::string caseSwapped(std::string_view text);

} // namespace mt::jinja
#endif
