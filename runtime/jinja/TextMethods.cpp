// The methods of Python's str.
#include "runtime/jinja/Characters.h"
#include "runtime/jinja/Formatting.h"
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

using Strings = std::vector<std::string_view>;

Result<Value> listOf(Heap &heap, const Strings &texts, Sequence::Kind kind = Sequence::Kind::List) {
  std::vector<Value> items;
  for (std::string_view text : texts)
    items.push_back(Value::of(text));
  return heap.sequence(kind, std::move(items));
}

/// A method that makes a text of a text.
template <std::string (*make)(std::string_view)>
Result<Value> changed(Heap &heap, const Value &subject, const Arguments &) {
  heap.spendText(subject.text.size());
  return heap.text(make(subject.text));
}

template <bool left, bool right> Result<Value> strip(Heap &heap, const Value &subject, const Arguments &arguments) {
  std::string_view text = subject.text;
  heap.spendText(text.size());
  if (arguments[0].missing() || arguments[0].is(Value::Kind::None)) {
    text = left ? strippedLeft(text) : text;
    return Value::of(right ? strippedRight(text) : text);
  }
  MT_ASSIGN(std::string_view of, textOr(arguments[0], "", "the argument of strip"));
  if (!heap.spend(text.size() * (1 + of.size() / 4) / 4))
    return heap.checked();
  text = left ? strippedLeft(text, of) : text;
  return Value::of(right ? strippedRight(text, of) : text);
}

/// How many cuts or replacements: a negative number, or none given, means all.
Result<size_t> mostOf(const Value &given) {
  MT_ASSIGN(int64_t most, integerOr(given, -1, "the count"));
  return most < 0 ? SIZE_MAX : static_cast<size_t>(most);
}

template <Strings (*atSpace)(std::string_view, size_t), Strings (*at)(std::string_view, std::string_view, size_t)>
Result<Value> splitBy(Heap &heap, const Value &subject, const Arguments &arguments) {
  heap.spendText(subject.text.size());
  MT_ASSIGN(size_t most, mostOf(arguments[1]));
  if (arguments[0].missing() || arguments[0].is(Value::Kind::None))
    return listOf(heap, atSpace(subject.text, most));
  MT_ASSIGN(std::string_view by, textOr(arguments[0], "", "the separator"));
  if (by.empty())
    return fail("the separator of split is empty");
  return listOf(heap, at(subject.text, by, most));
}

Result<Value> splitLines(Heap &heap, const Value &subject, const Arguments &arguments) {
  heap.spendText(subject.text.size());
  return listOf(heap, lines(subject.text, truthOf(arguments[0])));
}

template <bool right> Result<Value> partition(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view by, textOr(arguments[0], "", "the separator"));
  if (by.empty())
    return fail("the separator of partition is empty");
  std::string_view text = subject.text;
  heap.spendText(text.size());
  size_t found = right ? text.rfind(by) : text.find(by);
  if (found == std::string_view::npos)
    return listOf(heap, right ? Strings{"", "", text} : Strings{text, "", ""}, Sequence::Kind::Tuple);
  return listOf(heap, {text.substr(0, found), by, text.substr(found + by.size())}, Sequence::Kind::Tuple);
}

/// text[start:end] as bytes, and where it begins; nothing, if start lies after the text.
struct Part {
  std::string_view text;
  int64_t begin = 0; ///< in code points
};
Result<std::optional<Part>> partOf(Heap &heap, std::string_view text, const Value &start, const Value &end) {
  heap.spendText(text.size());
  auto given = [](const Value &value) { return !value.missing() && !value.is(Value::Kind::None); };
  if (!given(start) && !given(end))
    return std::optional(Part{text, 0});
  const auto size = static_cast<int64_t>(codePoints(text));
  MT_ASSIGN(int64_t from, given(start) ? integerOr(start, 0, "the start") : Result<int64_t>(int64_t{0}));
  MT_ASSIGN(int64_t to, given(end) ? integerOr(end, size, "the end") : Result<int64_t>(size));
  from = from < 0 ? std::max<int64_t>(0, from + size) : from;
  to = std::min(size, to < 0 ? std::max<int64_t>(0, to + size) : to);
  if (from > to)
    return std::optional<Part>();
  size_t begin = byteOf(text, static_cast<size_t>(from));
  return std::optional(Part{text.substr(begin, byteOf(text, static_cast<size_t>(to)) - begin), from});
}

/// str.find and its like, in code points; -1 where there is nothing.
Result<int64_t> placeOf(Heap &heap, const Value &subject, const Arguments &arguments, bool fromRight) {
  MT_ASSIGN(std::string_view wanted, textOr(arguments[0], "", "what is looked for"));
  MT_ASSIGN(std::optional<Part> part, partOf(heap, subject.text, arguments[1], arguments[2]));
  if (!part)
    return int64_t{-1};
  size_t found = fromRight ? part->text.rfind(wanted) : part->text.find(wanted);
  return found == std::string_view::npos ? -1
                                         : part->begin + static_cast<int64_t>(codePoints(part->text.substr(0, found)));
}

template <bool fromRight> Result<Value> findPlace(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(int64_t place, placeOf(heap, subject, arguments, fromRight));
  return Value::of(place);
}

template <bool fromRight> Result<Value> indexOf(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(int64_t place, placeOf(heap, subject, arguments, fromRight));
  return place < 0 ? Result<Value>(fail("the text that index looks for is not there")) : Value::of(place);
}

Result<Value> count(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view wanted, textOr(arguments[0], "", "what is counted"));
  MT_ASSIGN(std::optional<Part> part, partOf(heap, subject.text, arguments[1], arguments[2]));
  return Value::of(part ? static_cast<int64_t>(occurrences(part->text, wanted)) : int64_t{0});
}

template <bool atEnd> Result<Value> hasEnd(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::optional<Part> part, partOf(heap, subject.text, arguments[1], arguments[2]));
  std::vector<Value> wanted = {arguments[0]};
  if (arguments[0].is(Value::Kind::Sequence) && arguments[0].sequence->kind == Sequence::Kind::Tuple)
    wanted = arguments[0].sequence->items;
  for (const Value &one : wanted) {
    MT_ASSIGN(std::string_view text,
              textOr(one, "", atEnd ? "the argument of endswith" : "the argument of startswith"));
    if (part && (atEnd ? part->text.ends_with(text) : part->text.starts_with(text)))
      return Value::of(true);
  }
  return Value::of(false);
}

template <bool atEnd> Result<Value> removeEnd(Heap &, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view end, textOr(arguments[0], "", "what is removed"));
  std::string_view text = subject.text;
  if (!(atEnd ? text.ends_with(end) : text.starts_with(end)))
    return subject;
  return Value::of(atEnd ? text.substr(0, text.size() - end.size()) : text.substr(end.size()));
}

Result<Value> replace(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view from, textOr(arguments[0], "", "what is replaced"));
  MT_ASSIGN(std::string_view to, textOr(arguments[1], "", "the replacement"));
  MT_ASSIGN(size_t most, mostOf(arguments[2]));
  heap.spendText(subject.text.size());
  MT_TRY(heap.fits(subject.text.size() + std::min(most, occurrences(subject.text, from)) * to.size()));
  return heap.text(replaced(subject.text, from, to, most));
}

Result<Value> join(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, arguments[0]));
  std::string made;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is(Value::Kind::Text))
      return fail("the method join takes texts, not {}; the filter join takes anything", nameOf(items[i]));
    MT_TRY(heap.fits(made.size()));
    made.append(i > 0 ? subject.text : "").append(items[i].text);
  }
  return heap.text(std::move(made));
}

Result<Value> format(Heap &heap, const Value &subject, const Arguments &arguments) {
  return formatBraces(heap, subject, arguments);
}

enum class Side { Left, Center, Right };
/// str.ljust, center and rjust; center's odd blank stands left if the width is odd too.
template <Side side> Result<Value> justify(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(int64_t width, integerOr(arguments[0], 0, "the width"));
  MT_ASSIGN(std::string_view fill, textOr(arguments[1], " ", "what fills"));
  if (codePoints(fill) != 1)
    return fail("what fills must be one character");
  const auto length = static_cast<int64_t>(codePoints(subject.text));
  if (width <= length)
    return subject;
  MT_TRY(heap.fits(static_cast<size_t>(width)));
  const int64_t missing = width - length;
  const int64_t before = side == Side::Left ? 0 : side == Side::Right ? missing : missing / 2 + (missing & width & 1);
  std::string made;
  for (int64_t i = 0; i < before; ++i)
    made += fill;
  made += subject.text;
  for (int64_t i = before; i < missing; ++i)
    made += fill;
  return heap.text(std::move(made));
}

Result<Value> zeroFill(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(int64_t width, integerOr(arguments[0], 0, "the width"));
  const auto length = static_cast<int64_t>(codePoints(subject.text));
  if (width <= length)
    return subject;
  MT_TRY(heap.fits(static_cast<size_t>(width)));
  const size_t sign = subject.text.starts_with('-') || subject.text.starts_with('+') ? 1 : 0;
  std::string made(subject.text.substr(0, sign));
  made.append(static_cast<size_t>(width - length), '0').append(subject.text.substr(sign));
  return heap.text(std::move(made));
}

Result<Value> expandTabs(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(int64_t size, integerOr(arguments[0], 8, "the size of tabs"));
  const int64_t tab = std::clamp<int64_t>(size, 0, 1 << 16);
  std::string made;
  int64_t column = 0;
  for (std::string_view one : characters(subject.text)) {
    MT_TRY(heap.fits(made.size()));
    if (one == "\t") {
      int64_t blanks = tab > 0 ? tab - column % tab : 0;
      made.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
      continue;
    }
    made += one;
    column = one == "\n" || one == "\r" ? 0 : column + 1;
  }
  return heap.text(std::move(made));
}

/// str.isalpha and its like: of every character, and there is one.
template <auto is> Result<Value> all(Heap &heap, const Value &subject, const Arguments &) {
  heap.spendText(subject.text.size() * 8);
  for (size_t at = 0; at < subject.text.size();)
    if (!is(nextCodePoint(subject.text, at)))
      return Value::of(false);
  return Value::of(!subject.text.empty());
}

bool isAlphanumeric(char32_t c) { return isLetter(c) || isNumeric(c); }

/// Every cased character has this case, and there is one.
template <auto is> Result<Value> hasCase(Heap &heap, const Value &subject, const Arguments &) {
  heap.spendText(subject.text.size() * 8);
  bool any = false;
  for (size_t at = 0; at < subject.text.size();) {
    char32_t c = nextCodePoint(subject.text, at);
    if (isCased(c) && !is(c))
      return Value::of(false);
    any |= isCased(c);
  }
  return Value::of(any);
}

Result<Value> isTitle(Heap &heap, const Value &subject, const Arguments &) {
  heap.spendText(subject.text.size() * 8);
  bool any = false, inWord = false;
  for (size_t at = 0; at < subject.text.size();) {
    char32_t c = nextCodePoint(subject.text, at);
    if (isCased(c) && inWord != isLower(c))
      return Value::of(false);
    inWord = isCased(c);
    any |= inWord;
  }
  return Value::of(any);
}

Result<Value> isAscii(Heap &, const Value &subject, const Arguments &) {
  return Value::of(std::ranges::all_of(subject.text, [](char c) { return static_cast<uint8_t>(c) < 0x80; }));
}

Result<Value> isPrintableText(Heap &heap, const Value &subject, const Arguments &arguments) {
  return subject.text.empty() ? Result<Value>(Value::of(true)) : all<isPrintable>(heap, subject, arguments);
}

constexpr Native kMethods[] = {
    {"capitalize", "", 0, changed<capitalized>},
    {"center", "width fill", 1, justify<Side::Center>},
    {"count", "sub start end", 1, count},
    {"endswith", "suffix start end", 1, hasEnd<true>},
    {"expandtabs", "tabsize", 0, expandTabs},
    {"find", "sub start end", 1, findPlace<false>},
    {"format", "*", 0, format},
    {"index", "sub start end", 1, indexOf<false>},
    {"isalnum", "", 0, all<isAlphanumeric>},
    {"isalpha", "", 0, all<isLetter>},
    {"isascii", "", 0, isAscii},
    {"isdecimal", "", 0, all<isDecimal>},
    {"isdigit", "", 0, all<isDigit>},
    {"islower", "", 0, hasCase<isLower>},
    {"isnumeric", "", 0, all<isNumeric>},
    {"isprintable", "", 0, isPrintableText},
    {"isspace", "", 0, all<isSpace>},
    {"istitle", "", 0, isTitle},
    {"isupper", "", 0, hasCase<isUpper>},
    {"join", "iterable", 1, join},
    {"ljust", "width fill", 1, justify<Side::Left>},
    {"lower", "", 0, changed<lower>},
    {"lstrip", "chars", 0, strip<true, false>},
    {"partition", "sep", 1, partition<false>},
    {"removeprefix", "prefix", 1, removeEnd<false>},
    {"removesuffix", "suffix", 1, removeEnd<true>},
    {"replace", "old new count", 2, replace},
    {"rfind", "sub start end", 1, findPlace<true>},
    {"rindex", "sub start end", 1, indexOf<true>},
    {"rjust", "width fill", 1, justify<Side::Right>},
    {"rpartition", "sep", 1, partition<true>},
    {"rsplit", "sep maxsplit", 0, splitBy<wordsFromRight, splitFromRight>},
    {"rstrip", "chars", 0, strip<false, true>},
    {"split", "sep maxsplit", 0, splitBy<words, split>},
    {"splitlines", "keepends", 0, splitLines},
    {"startswith", "prefix start end", 1, hasEnd<false>},
    {"strip", "chars", 0, strip<true, true>},
    {"swapcase", "", 0, changed<caseSwapped>},
    {"title", "", 0, changed<titled>},
    {"upper", "", 0, changed<upper>},
    {"zfill", "width", 1, zeroFill},
};

} // namespace

std::span<const Native> textMethods() { return kMethods; }

} // namespace mt::jinja
