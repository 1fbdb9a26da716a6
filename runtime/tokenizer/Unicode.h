// Characters of UTF-8 text: reading and writing them, their classes, lower case and normal forms (utf8proc, Unicode
// 15). Texts are valid UTF-8 but for repaired()'s argument.
#ifndef MT_RUNTIME_TOKENIZER_UNICODE_H
#define MT_RUNTIME_TOKENIZER_UNICODE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mt::tokenizer {

/// Bytes of the character that begins with `lead`.
inline size_t lengthOf(char lead) {
  auto byte = static_cast<uint8_t>(lead);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The character at `at`, which is moved behind it.
inline char32_t nextCharacter(std::string_view text, size_t &at) {
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  char32_t lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  if (lead < 0xe0) {
    at += 2;
    return (lead & 0x1f) << 6 | (byte(at - 1) & 0x3f);
  }
  if (lead < 0xf0) {
    at += 3;
    return (lead & 0x0f) << 12 | (byte(at - 2) & 0x3f) << 6 | (byte(at - 1) & 0x3f);
  }
  at += 4;
  return (lead & 0x07) << 18 | (byte(at - 3) & 0x3f) << 12 | (byte(at - 2) & 0x3f) << 6 | (byte(at - 1) & 0x3f);
}

/// Where the character that ends before `end` begins.
inline size_t previousCharacter(std::string_view text, size_t end) {
  do
    --end;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xc0) == 0x80);
  return end;
}

void appendCharacter(std::string &text, char32_t character);

/// The text with U+FFFD for every longest beginning of a character that does not go on, and every other byte that is
/// not UTF-8: Unicode's recommended practice (The Unicode Standard, 3.9).
std::string repaired(std::string_view text);

bool isAscii(std::string_view text);
bool isSpace(char32_t character);       ///< White_Space
bool isWordPart(char32_t character);    ///< \w of UTS #18: letters, marks, digits, connectors, joiners
bool isNumeric(char32_t character);     ///< Nd, Nl, No
bool isPunctuation(char32_t character); ///< P*, and ASCII's symbols
bool isMark(char32_t character);        ///< M*
bool isNonspacingMark(char32_t character);
bool isControl(char32_t character); ///< Cc, Cf, Co

/// The lower case of a character, which may be two of them.
void appendLower(std::string &text, char32_t character);

enum class NormalForm { nfc, nfd, nfkc, nfkd };
/// Appends the normal form of a text.
void appendNormal(NormalForm form, std::string_view text, std::string &to);

/// The end of the grapheme cluster (UAX #29, extended) that begins at `begin`.
size_t graphemeEnd(std::string_view text, size_t begin);

} // namespace mt::tokenizer
#endif
