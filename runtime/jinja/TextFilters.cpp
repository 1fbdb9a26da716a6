// Filters that make text.
#include "runtime/jinja/Characters.h"
#include "runtime/jinja/Formatting.h"
#include "runtime/jinja/Markup.h"
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

/// Text with its mark; else what is printed.
Result<Value> string(Heap &heap, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Text))
    return subject;
  MT_ASSIGN(std::string_view text, printed(heap, subject));
  return Value::of(text);
}

Result<Value> safe(Heap &heap, const Value &subject, const Arguments &) {
  MT_ASSIGN(std::string_view text, printed(heap, subject));
  return marked(Value::of(text));
}

Result<Value> escape(Heap &heap, const Value &subject, const Arguments &) { return escaped(heap, subject); }

Result<Value> forceEscape(Heap &heap, const Value &subject, const Arguments &) {
  return escaped(heap, subject.is(Value::Kind::Text) ? marked(subject, false) : subject);
}

/// A filter that is a method of the value's text.
template <const char *const *name> Result<Value> method(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(Value of, string(heap, subject, {}));
  Arguments given;
  for (const Value &one : arguments.positional)
    if (!one.missing())
      given.positional.push_back(one);
  return callMethod(*findMethod(of, *name), heap, of, given);
}
constexpr const char *kUpperName = "upper", *kLowerName = "lower", *kCapitalizeName = "capitalize",
                     *kStripName = "strip";

Result<Value> center(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(Value of, string(heap, subject, {}));
  const Value width = arguments[0].missing() ? Value::of(int64_t{80}) : arguments[0];
  return callMethod(*findMethod(of, "center"), heap, of, {.positional = {width}, .named = {}});
}

/// Unlike the method, this begins words after blanks, hyphens and opening brackets alone.
Result<Value> title(Heap &heap, const Value &subject, const Arguments &) {
  MT_ASSIGN(std::string_view text, printed(heap, subject));
  heap.spendText(text.size());
  auto separates = [](char32_t c) { return isSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<'; };
  std::string made;
  for (size_t at = 0; at < text.size();) {
    size_t begin = at, first = at;
    bool apart = separates(nextCodePoint(text, first));
    for (size_t next = at; next < text.size() && separates(nextCodePoint(text, next)) == apart;)
      at = next;
    made += upper(text.substr(begin, first - begin)) + lower(text.substr(first, at - first));
  }
  return heap.text(std::move(made));
}

Result<Value> replace(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view text, printed(heap, subject));
  MT_ASSIGN(std::string_view from, printed(heap, arguments[0]));
  MT_ASSIGN(std::string_view to, printed(heap, arguments[1]));
  Arguments given = {.positional = {Value::of(from), Value::of(to)}, .named = {}};
  if (!arguments[2].missing() && !arguments[2].is(Value::Kind::None))
    given.positional.push_back(arguments[2]);
  const Value of = Value::of(text);
  return callNative(*findMethod(of, "replace"), heap, of, given);
}

Result<Value> indent(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view text, textOr(subject, "", "what is indented"));
  std::string by(4, ' ');
  if (arguments[0].is(Value::Kind::Text)) {
    by = arguments[0].text;
  } else {
    MT_ASSIGN(int64_t width, integerOr(arguments[0], 4, "the width"));
    MT_TRY(heap.fits(static_cast<size_t>(std::max<int64_t>(0, width))));
    by.assign(static_cast<size_t>(std::max<int64_t>(0, width)), ' ');
  }
  const bool first = truthOf(arguments[1]), blank = truthOf(arguments[2]);
  heap.spendText(text.size());
  const std::string whole = std::string(text) + "\n";
  std::string made;
  size_t number = 0;
  for (std::string_view line : lines(whole, false)) {
    MT_TRY(heap.fits(made.size()));
    heap.spendText(by.size());
    made += number > 0 ? "\n" : "";
    if (number++ > 0 ? blank || !line.empty() : first)
      made += by;
    made += line;
  }
  MT_ASSIGN(Value indented, heap.text(std::move(made)));
  return marked(indented, subject.markup);
}

Result<Value> truncate(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view text, textOr(subject, "", "what is truncated"));
  MT_ASSIGN(int64_t length, integerOr(arguments[0], 255, "the length"));
  MT_ASSIGN(std::string_view end, textOr(arguments[2], "...", "the end"));
  MT_ASSIGN(int64_t leeway, integerOr(arguments[3].is(Value::Kind::None) ? Value() : arguments[3], 5, "the leeway"));
  const auto tail = static_cast<int64_t>(codePoints(end));
  if (length < tail || leeway < 0)
    return fail("truncate needs a length of at least {} and a leeway of at least 0", tail);
  heap.spendText(text.size());
  if (leeway >= INT64_MAX - length || static_cast<int64_t>(codePoints(text)) <= length + leeway)
    return subject;
  std::string_view kept = text.substr(0, byteOf(text, static_cast<size_t>(length - tail)));
  if (!truthOf(arguments[1]))
    kept = kept.substr(0, kept.rfind(' '));
  return combined(heap, Arithmetic::Add, marked(Value::of(kept), subject.markup),
                  marked(Value::of(end), arguments[2].markup));
}

Result<Value> format(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(Value text, string(heap, subject, {}));
  if (!arguments.named.empty() && !arguments.positional.empty())
    return fail("format takes values in order or by name, not both");
  if (arguments.named.empty()) {
    MT_ASSIGN(Value values, heap.sequence(Sequence::Kind::Tuple, arguments.positional));
    return formatPercent(heap, text, values);
  }
  std::vector<std::pair<Value, Value>> entries;
  for (const auto &[name, value] : arguments.named)
    entries.emplace_back(Value::of(name), value);
  MT_ASSIGN(Value values, heap.dictionary(std::move(entries)));
  return formatPercent(heap, text, values);
}

Result<Value> wordCount(Heap &heap, const Value &subject, const Arguments &) {
  MT_ASSIGN(std::string_view text, printed(heap, subject));
  heap.spendText(text.size());
  int64_t count = 0;
  bool inWord = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = nextCodePoint(text, at);
    bool letter = isLetter(c) || isNumeric(c) || c == '_';
    count += letter && !inWord;
    inWord = letter;
  }
  return Value::of(count);
}

/// json.dumps's separators: a list or tuple of two texts.
Status readSeparators(const Value &given, JsonStyle &style) {
  if (given.missing() || given.is(Value::Kind::None))
    return {};
  const bool two = given.is(Value::Kind::Sequence) && given.sequence->items.size() == 2 &&
                   given.sequence->items[0].is(Value::Kind::Text) && given.sequence->items[1].is(Value::Kind::Text);
  if (!two)
    return fail("separators must be two texts");
  style.between = given.sequence->items[0].text;
  style.afterKey = given.sequence->items[1].text;
  return {};
}

Result<Value> toJson(Heap &heap, const Value &subject, const Arguments &arguments) {
  JsonStyle style = {.ascii = truthOf(arguments[0]), .sorted = truthOf(arguments[3]), .indent = {}};
  const Value &indent = arguments[1];
  if (indent.is(Value::Kind::Text)) {
    style.indent = indent.text;
  } else if (!indent.missing() && !indent.is(Value::Kind::None)) {
    MT_ASSIGN(int64_t width, integerOr(indent, 0, "indent"));
    if (width > 1000)
      return fail("an indent of {} is more than the 1000 that are supported", width);
    style.indent = std::string(static_cast<size_t>(std::max<int64_t>(0, width)), ' ');
  }
  style.between = style.indent ? "," : ", ";
  MT_TRY(readSeparators(arguments[2], style));
  std::string made;
  MT_TRY(printJson(heap, subject, style, made));
  return heap.text(std::move(made));
}

constexpr Native kFilters[] = {
    {"capitalize", "", 0, method<&kCapitalizeName>},
    {"center", "width", 0, center},
    {"e", "", 0, escape},
    {"escape", "", 0, escape},
    {"forceescape", "", 0, forceEscape},
    {"format", "*", 0, format},
    {"indent", "width first blank", 0, indent},
    {"lower", "", 0, method<&kLowerName>},
    {"replace", "old new count", 2, replace},
    {"safe", "", 0, safe},
    {"string", "", 0, string},
    {"title", "", 0, title},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, toJson},
    {"trim", "chars", 0, method<&kStripName>},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"upper", "", 0, method<&kUpperName>},
    {"wordcount", "", 0, wordCount},
};

} // namespace

std::span<const Native> textFilters() { return kFilters; }

} // namespace mt::jinja
