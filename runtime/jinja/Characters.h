// Classes and cases of characters, as Python's str sees them. The tables beyond ASCII are CharacterTables.cpp, which
// tests/jinja/characters.py makes.
#ifndef MT_RUNTIME_JINJA_CHARACTERS_H
#define MT_RUNTIME_JINJA_CHARACTERS_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mt::jinja {

enum class Case { Upper, Lower, Title };

/// Appends a character in another case: one to three characters.
void appendCase(std::string &to, char32_t c, Case which);

bool isUpper(char32_t c);
bool isLower(char32_t c);
/// Upper, lower or title case.
bool isCased(char32_t c);
/// Marks and apostrophes: words go on through them.
bool ignoresCase(char32_t c);
bool isLetter(char32_t c);
bool isDecimal(char32_t c);
bool isDigit(char32_t c);
bool isNumeric(char32_t c);
bool isPrintable(char32_t c);

namespace tables {

struct Range {
  char32_t first, last;
};
/// Every `step`-th character from first to last becomes the one at this distance.
struct Run {
  char32_t first, last;
  int32_t step, distance;
};
struct Expansion {
  char32_t from;
  std::u32string_view to;
};

extern const std::span<const Range> kUpperCase, kLowerCase, kTitleCase, kLetters, kDecimals, kDigits, kNumbers,
    kUnprintable, kIgnoringCase;
extern const std::span<const Run> kUpper, kLower, kTitle;
extern const std::span<const Expansion> kUpperExpansions, kLowerExpansions, kTitleExpansions;

} // namespace tables
} // namespace mt::jinja
#endif
