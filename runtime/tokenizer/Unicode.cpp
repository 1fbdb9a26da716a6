#include "runtime/tokenizer/Unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

namespace mt::tokenizer {
namespace {

constexpr char32_t kReplacement = 0xfffd;

utf8proc_category_t categoryOf(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool isBetween(utf8proc_category_t category, utf8proc_category_t first, utf8proc_category_t last) {
  return category >= first && category <= last;
}

/// Symbols that are letters all the same (Other_Alphabetic outside of marks): letters in circles and squares.
bool isLetterSymbol(char32_t c) {
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189);
}

/// How many bytes of `text` at `at` begin a character, and whether they are all of it.
std::pair<size_t, bool> beginningOf(std::string_view text, size_t at) {
  auto lead = static_cast<uint8_t>(text[at]);
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length <= 1)
    return {1, length == 1};
  for (size_t k = 1; k < length; ++k) {
    uint8_t low = k == 1 && lead == 0xe0 ? 0xa0 : k == 1 && lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = k == 1 && lead == 0xed ? 0x9f : k == 1 && lead == 0xf4 ? 0x8f : 0xbf;
    if (at + k >= text.size() || static_cast<uint8_t>(text[at + k]) < low || static_cast<uint8_t>(text[at + k]) > high)
      return {k, false};
  }
  return {length, true};
}

constexpr size_t kForms = 4, kPlane = 0x10000;

utf8proc_option_t optionsOf(NormalForm form) {
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (compatible ? UTF8PROC_COMPAT : 0));
}

/// Appends the normal form of a piece by utf8proc. `buffer` is for its use.
void appendByTables(NormalForm form, std::string_view text, std::vector<utf8proc_int32_t> &buffer, std::string &to) {
  const utf8proc_option_t options = optionsOf(form);
  auto decompose = [&] {
    return utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), buffer.data(),
                              static_cast<utf8proc_ssize_t>(buffer.size()), options);
  };
  buffer.resize(std::max(buffer.size(), 2 * text.size() + 32));
  utf8proc_ssize_t count = decompose();
  if (count > static_cast<utf8proc_ssize_t>(buffer.size())) {
    buffer.resize(static_cast<size_t>(count) + 32);
    count = decompose();
  }
  if (count > 0 && options & UTF8PROC_COMPOSE)
    count = utf8proc_normalize_utf32(buffer.data(), count, options);
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    appendCharacter(to, static_cast<char32_t>(buffer[static_cast<size_t>(i)]));
}

/// For each character of the first plane the forms that it is in whatever stands around it: it is its own form, does
/// not move, and joins no character before it.
std::vector<uint8_t> makeSettled() {
  std::vector<uint8_t> settled(kPlane, 0);
  std::vector<bool> joins(kPlane, false);
  std::vector<utf8proc_int32_t> buffer;
  std::string character, form;
  for (char32_t c = 0x80; c < kPlane; ++c) {
    utf8proc_int32_t parts[32] = {};
    int boundary = 0;
    auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
    for (utf8proc_ssize_t i = 1; i < std::min<utf8proc_ssize_t>(count, 32); ++i)
      if (parts[i] < static_cast<utf8proc_int32_t>(kPlane))
        joins[static_cast<size_t>(parts[i])] = true;
  }
  for (char32_t c = 0x80; c < kPlane; ++c) {
    if ((c >= 0xd800 && c < 0xe000) || joins[c] ||
        utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class != 0)
      continue;
    character.clear();
    appendCharacter(character, c);
    for (size_t n = 0; n < kForms; ++n) {
      form.clear();
      appendByTables(static_cast<NormalForm>(n), character, buffer, form);
      settled[c] |= static_cast<uint8_t>((form == character) << n);
    }
  }
  return settled;
}

bool isSettled(NormalForm form, std::string_view text) {
  static const std::vector<uint8_t> settled = makeSettled();
  for (size_t at = 0; at < text.size();)
    if (char32_t c = nextCharacter(text, at); c >= 0x80 && (c >= kPlane || !(settled[c] >> static_cast<int>(form) & 1)))
      return false;
  return true;
}

} // namespace

void appendCharacter(std::string &text, char32_t c) {
  auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80)
    return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

std::string repaired(std::string_view text) {
  std::string good;
  good.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    auto [length, whole] = beginningOf(text, at);
    if (whole)
      good.append(text, at, length);
    else
      appendCharacter(good, kReplacement);
    at += length;
  }
  return good;
}

bool isAscii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<uint8_t>(c) >= 0x80; });
}

bool isSpace(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool isWordPart(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  utf8proc_category_t category = categoryOf(c);
  return isBetween(category, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
         c == 0x200c || c == 0x200d || isLetterSymbol(c);
}

bool isNumeric(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : isBetween(categoryOf(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool isPunctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) || (c >= 0x7b && c <= 0x7e);
  return isBetween(categoryOf(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool isMark(char32_t c) { return c >= 0x300 && isBetween(categoryOf(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME); }

bool isNonspacingMark(char32_t c) { return c >= 0x300 && categoryOf(c) == UTF8PROC_CATEGORY_MN; }

bool isControl(char32_t c) {
  utf8proc_category_t category = categoryOf(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

void appendLower(std::string &text, char32_t c) {
  if (c < 0x80)
    return text.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
  if (c == 0x130) // the one character whose lower case is two
    return static_cast<void>(text.append("i\xcc\x87"));
  appendCharacter(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void appendNormal(NormalForm form, std::string_view text, std::string &to) {
  constexpr size_t kLong = 1 << 12;
  auto ascii = [&](size_t i) { return static_cast<uint8_t>(text[i]) < 0x80; };
  std::vector<utf8proc_int32_t> buffer;
  for (size_t at = 0; at < text.size();) {
    // Nothing joins or moves over the place before ASCII: pieces are what is not ASCII, with the character before it.
    size_t begin = at;
    while (begin < text.size() && ascii(begin))
      ++begin;
    size_t end = begin;
    while (end < text.size() && !ascii(end)) {
      size_t next = end;
      char32_t c = nextCharacter(text, next);
      if (end - begin > kLong && c >= 0x4e00 && c < 0xa000) // nor before an ideograph
        break;
      end = next;
    }
    if (begin > at && begin < text.size())
      --begin;
    to.append(text, at, begin - at);
    std::string_view piece = text.substr(begin, end - begin);
    isSettled(form, piece) ? static_cast<void>(to.append(piece)) : appendByTables(form, piece, buffer, to);
    at = end;
  }
}

size_t graphemeEnd(std::string_view text, size_t begin) {
  size_t at = begin;
  utf8proc_int32_t state = 0;
  auto before = static_cast<utf8proc_int32_t>(nextCharacter(text, at));
  while (at < text.size()) {
    size_t next = at;
    auto c = static_cast<utf8proc_int32_t>(nextCharacter(text, next));
    if (utf8proc_grapheme_break_stateful(before, c, &state))
      break;
    before = c;
    at = next;
  }
  return at;
}

} // namespace mt::tokenizer
