#include "runtime/jinja/Characters.h"

#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

bool within(std::span<const tables::Range> ranges, char32_t c) {
  auto found = std::ranges::lower_bound(ranges, c, {}, &tables::Range::last);
  return found != ranges.end() && found->first <= c;
}

bool asciiUpper(char32_t c) { return c >= 'A' && c <= 'Z'; }
bool asciiLower(char32_t c) { return c >= 'a' && c <= 'z'; }
bool asciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

struct Changes {
  std::span<const tables::Run> runs;
  std::span<const tables::Expansion> expansions;
};

Changes changesOf(Case which) {
  if (which == Case::Upper)
    return {tables::kUpper, tables::kUpperExpansions};
  if (which == Case::Lower)
    return {tables::kLower, tables::kLowerExpansions};
  return {tables::kTitle, tables::kTitleExpansions};
}

char32_t changed(std::span<const tables::Run> runs, char32_t c) {
  // Runs are ordered by their first character, and two may interlock.
  auto after = std::ranges::upper_bound(runs, c, {}, &tables::Run::first);
  for (int back = 0; back < 4 && after != runs.begin(); ++back) {
    const tables::Run &run = *--after;
    if (c <= run.last && (c - run.first) % static_cast<uint32_t>(run.step) == 0)
      return static_cast<char32_t>(static_cast<int32_t>(c) + run.distance);
  }
  return c;
}

} // namespace

void appendCase(std::string &to, char32_t c, Case which) {
  if (c < 0x80) {
    bool turns = which == Case::Lower ? asciiUpper(c) : asciiLower(c);
    to += static_cast<char>(turns ? c ^ 0x20 : c);
    return;
  }
  auto [runs, expansions] = changesOf(which);
  auto found = std::ranges::lower_bound(expansions, c, {}, &tables::Expansion::from);
  if (found == expansions.end() || found->from != c)
    return append(to, changed(runs, c));
  for (char32_t one : found->to)
    append(to, one);
}

bool isUpper(char32_t c) { return c < 0x80 ? asciiUpper(c) : within(tables::kUpperCase, c); }
bool isLower(char32_t c) { return c < 0x80 ? asciiLower(c) : within(tables::kLowerCase, c); }
bool isCased(char32_t c) { return isUpper(c) || isLower(c) || (c >= 0x80 && within(tables::kTitleCase, c)); }
bool ignoresCase(char32_t c) {
  return c < 0x80 ? std::u32string_view(U"'.:^`").find(c) != std::u32string_view::npos
                  : within(tables::kIgnoringCase, c);
}
bool isLetter(char32_t c) { return c < 0x80 ? asciiUpper(c) || asciiLower(c) : within(tables::kLetters, c); }
bool isDecimal(char32_t c) { return c < 0x80 ? asciiDigit(c) : within(tables::kDecimals, c); }
bool isDigit(char32_t c) { return c < 0x80 ? asciiDigit(c) : within(tables::kDigits, c); }
bool isNumeric(char32_t c) { return c < 0x80 ? asciiDigit(c) : within(tables::kNumbers, c); }
bool isPrintable(char32_t c) { return c < 0x80 ? c >= 0x20 && c < 0x7f : !within(tables::kUnprintable, c); }

} // namespace mt::jinja
