#include "runtime/jinja/Formatting.h"

#include "runtime/jinja/Attributes.h"
#include "runtime/jinja/FormatStyle.h"
#include "runtime/jinja/Markup.h"
#include "runtime/jinja/Numbers.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Text.h"

#include <algorithm>
#include <cmath>

namespace mt::jinja {
namespace {

/// One after another, and the error where there are too few or too many.
class PercentValues {
public:
  PercentValues(Heap &heap, const Value &values) : heap(heap), values(values) {
    tuple = values.is(Value::Kind::Sequence) && values.sequence->kind == Sequence::Kind::Tuple;
  }
  Result<Value> next() {
    size_t count = tuple ? values.sequence->items.size() : 1;
    if (taken >= count)
      return fail("a format has more places than values");
    return tuple ? values.sequence->items[taken++] : (++taken, values);
  }
  Result<Value> named(std::string_view name) {
    if (!values.is(Value::Kind::Dictionary))
      return fail("a format with names needs a dictionary, not {}", nameOf(values));
    const Value *found = find(heap, *values.dictionary, Value::of(name));
    taken = 1;
    return found ? Result<Value>(*found) : fail("a format names {}, which there is not", name);
  }
  Status finished() const {
    const bool subscripted = values.is(Value::Kind::Dictionary) || values.is(Value::Kind::Undefined) ||
                             (values.is(Value::Kind::Sequence) && values.sequence->indexed());
    if (tuple ? taken < values.sequence->items.size() : taken == 0 && !subscripted)
      return fail("a format has fewer places than values");
    return {};
  }

private:
  Heap &heap;
  const Value &values;
  bool tuple = false;
  size_t taken = 0;
};

/// "-+ 0#", width and precision of a place that % opened.
Result<FormatStyle> readPercentStyle(std::string_view format, size_t &at) {
  FormatStyle style;
  bool zeros = false;
  for (; at < format.size() && std::string_view("-+ 0#").find(format[at]) != std::string_view::npos; ++at) {
    char flag = format[at];
    zeros |= flag == '0';
    style.alternate |= flag == '#';
    if (flag == '-')
      style.align = '<';
    else if (flag == '+' || (flag == ' ' && style.sign != '+'))
      style.sign = flag;
  }
  MT_ASSIGN(style.width, readCount(format, at, kWidest));
  if (at < format.size() && format[at] == '.') {
    MT_ASSIGN(style.precision, readCount(format, ++at, kMostDigits));
  }
  if (zeros && !style.align) {
    style.align = '=';
    style.fill = "0";
  }
  return style;
}

/// What %d and the like take: an integer, or a float cut off.
Result<Value> wholeOf(const Value &value) {
  if (value.is(Value::Kind::Real)) {
    MT_ASSIGN(int64_t whole, truncated(value.real));
    return Value::of(whole);
  }
  return value.whole() ? Result<Value>(Value::of(value.integer))
                       : fail("a format needs a number, not {}", nameOf(value));
}

Result<std::string> formattedPercent(Heap &heap, const Value &value, FormatStyle style, bool escapes) {
  if (style.kind == 's' || style.kind == 'r') {
    std::string text;
    MT_TRY(style.kind == 's' ? print(heap, value, text) : printQuoted(heap, value, text));
    if (escapes && !value.markup)
      text = escapedText(text);
    style.align = style.align == '<' ? '<' : '>';
    style.fill = " ";
    return formattedText(text, style);
  }
  if (style.kind == 'c')
    return value.is(Value::Kind::Text) && codePoints(value.text) == 1 ? padded("", value.text, style, '>')
                                                                      : fail("%c needs one character");
  if (style.kind == 'i' || style.kind == 'u')
    style.kind = 'd';
  if (style.kind == 'd' || style.kind == 'x' || style.kind == 'X' || style.kind == 'o') {
    if (style.kind != 'd' && !value.whole())
      return fail("a format needs an integer, not {}", nameOf(value));
    MT_ASSIGN(Value whole, wholeOf(value));
    return formattedNumber(whole, style);
  }
  if (!value.number())
    return fail("a format needs a number, not {}", nameOf(value));
  return formattedNumber(value, style);
}

/// [[fill]align][sign][#][0][width][,][.precision][kind]
Result<FormatStyle> readBracesStyle(std::string_view spec) {
  FormatStyle style;
  auto aligns = [&](size_t i) {
    return i < spec.size() && std::string_view("<>^=").find(spec[i]) != std::string_view::npos;
  };
  size_t at = 0, first = 0;
  if (!spec.empty())
    nextCodePoint(spec, first);
  if (aligns(first)) {
    style.fill = spec.substr(0, first);
    at = first;
  }
  if (aligns(at))
    style.align = spec[at++];
  auto take = [&](char wanted) { return at < spec.size() && spec[at] == wanted ? (++at, true) : false; };
  if (at < spec.size() && (spec[at] == '+' || spec[at] == '-' || spec[at] == ' '))
    style.sign = spec[at++];
  style.alternate = take('#');
  if (take('0') && !style.align) {
    style.align = '=';
    style.fill = "0";
  }
  MT_ASSIGN(style.width, readCount(spec, at, kWidest));
  style.thousands = take(',');
  if (take('.')) {
    MT_ASSIGN(style.precision, readCount(spec, at, kMostDigits));
  }
  if (at < spec.size())
    style.kind = spec[at++];
  return at == spec.size() ? Result<FormatStyle>(style) : fail("the format '{}' is not supported", spec);
}

Result<std::string> formattedBraces(Heap &heap, const Value &value, std::string_view spec) {
  MT_ASSIGN(FormatStyle style, readBracesStyle(spec));
  const bool plain = style.kind == 0 || style.kind == 's';
  if (!value.number() || value.is(Value::Kind::Boolean)) {
    if (!plain || style.align == '=' || (!value.is(Value::Kind::Text) && !spec.empty()))
      return fail("the format '{}' is not supported for {}", spec, nameOf(value));
    std::string text;
    MT_TRY(print(heap, value, text));
    return formattedText(text, style);
  }
  if (style.kind == 's' || (plain && style.precision >= 0))
    return fail("the format '{}' is not supported for {}", spec, nameOf(value));
  if (value.is(Value::Kind::Real) && plain) {
    std::string text = writtenFloat(std::abs(value.real));
    return padded(std::signbit(value.real) ? "-"
                  : style.sign == '+'      ? "+"
                                           : "",
                  text, style, style.align ? style.align : '>');
  }
  style.kind = plain ? 'd' : style.kind;
  if (value.is(Value::Kind::Real) && std::string_view("dxXob").find(style.kind) != std::string_view::npos)
    return fail("the format '{}' is for integers, not {}", spec, nameOf(value));
  return formattedNumber(value, style);
}

/// The value that "0", "", "name", "name.attribute" or "name[item]" means.
class Fields {
public:
  Fields(Heap &heap, const Arguments &arguments) : heap(heap), arguments(arguments) {}

  Result<Value> find(std::string_view field) {
    size_t end = std::min(field.find_first_of(".["), field.size());
    MT_ASSIGN(Value value, first(field.substr(0, end)));
    for (field.remove_prefix(end); !field.empty();) {
      const bool attribute = field[0] == '.';
      end = attribute ? std::min(field.find_first_of(".[", 1), field.size()) : field.find(']');
      if (end == std::string_view::npos || end < 2)
        return fail("a format's field '{}' is not complete", field);
      MT_ASSIGN(value, step(value, field.substr(1, end - 1), attribute));
      field.remove_prefix(attribute ? end : end + 1);
    }
    return value;
  }

private:
  Heap &heap;
  const Arguments &arguments;
  int64_t automatic = 0;

  static bool digits(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos && text.size() < 10;
  }

  Result<Value> first(std::string_view name) {
    if (!name.empty() && !digits(name)) {
      for (const auto &[given, value] : arguments.named)
        if (given == name)
          return value;
      return fail("a format names {}, which there is not", name);
    }
    if (name.empty() == (automatic < 0) && automatic != 0)
      return fail("a format numbers some of its places and not others");
    int64_t place = name.empty() ? automatic++ : std::atoll(std::string(name).c_str());
    automatic = name.empty() ? automatic : -1;
    if (place >= static_cast<int64_t>(arguments.positional.size()))
      return fail("a format has more places than values");
    return arguments.positional[static_cast<size_t>(place)];
  }

  Result<Value> step(const Value &value, std::string_view name, bool attribute) {
    if (attribute)
      return attributeOf(heap, value, name);
    MT_ASSIGN(std::optional<Value> item,
              itemOf(heap, value,
                     digits(name) ? Value::of(int64_t{std::atoll(std::string(name).c_str())}) : Value::of(name)));
    return item ? Result<Value>(*item) : fail("a format asks for item {}, which there is not", name);
  }
};

Result<std::string> formattedField(Heap &heap, Fields &fields, std::string_view field, bool escapes) {
  const size_t mark = std::min(field.find_first_of("!:"), field.size()),
               colon = std::min(field.find(':'), field.size());
  std::string_view spec = colon < field.size() ? field.substr(colon + 1) : std::string_view();
  if (spec.find('{') != std::string_view::npos)
    return fail("a format within a format is not supported");
  MT_ASSIGN(Value value, fields.find(field.substr(0, mark)));
  if (escapes && value.is(Value::Kind::Text) && value.markup && mark == colon)
    return spec.empty() ? Result<std::string>(std::string(value.text))
                        : fail("text that is marked as HTML takes no format");
  if (mark == colon) {
    MT_ASSIGN(std::string made, formattedBraces(heap, value, spec));
    return escapes ? escapedText(made) : made;
  }
  std::string_view conversion = field.substr(mark + 1, colon - mark - 1);
  if (conversion != "r" && conversion != "s")
    return fail("a format's conversion '{}' is not supported", conversion);
  std::string text;
  MT_TRY(conversion == "r" ? printQuoted(heap, value, text) : print(heap, value, text));
  MT_ASSIGN(std::string made, formattedBraces(heap, Value::of(std::string_view(text)), spec));
  return escapes ? escapedText(made) : made;
}

} // namespace

Result<Value> formatPercent(Heap &heap, const Value &text, const Value &values) {
  const std::string_view format = text.text;
  PercentValues left(heap, values);
  std::string made;
  for (size_t at = 0; at < format.size();) {
    MT_TRY(heap.fits(made.size()));
    if (format[at] != '%') {
      made += format[at++];
      continue;
    }
    std::optional<std::string_view> name;
    if (++at < format.size() && format[at] == '(') {
      size_t end = format.find(')', at);
      if (end == std::string_view::npos)
        return fail("a format's name has no end");
      name = format.substr(at + 1, end - at - 1);
      at = end + 1;
    }
    MT_ASSIGN(FormatStyle style, readPercentStyle(format, at));
    if (at >= format.size())
      return fail("a format ends within a place");
    style.kind = format[at++];
    if (style.kind == '%') {
      made += '%';
      continue;
    }
    MT_ASSIGN(Value value, name ? left.named(*name) : left.next());
    MT_ASSIGN(std::string one, formattedPercent(heap, value, style, text.markup));
    made += one;
  }
  MT_TRY(left.finished());
  MT_ASSIGN(Value whole, heap.text(std::move(made)));
  return marked(whole, text.markup);
}

Result<Value> formatBraces(Heap &heap, const Value &text, const Arguments &arguments) {
  const std::string_view format = text.text;
  Fields fields(heap, arguments);
  std::string made;
  for (size_t at = 0; at < format.size();) {
    MT_TRY(heap.fits(made.size()));
    const char c = format[at++];
    const bool doubled = at < format.size() && format[at] == c;
    if ((c != '{' && c != '}') || doubled) {
      made += c;
      at += doubled && (c == '{' || c == '}');
      continue;
    }
    size_t end = format.find('}', at);
    if (c == '}' || end == std::string_view::npos)
      return fail("a format has a single brace");
    MT_ASSIGN(std::string one, formattedField(heap, fields, format.substr(at, end - at), text.markup));
    made += one;
    at = end + 1;
  }
  MT_ASSIGN(Value whole, heap.text(std::move(made)));
  return marked(whole, text.markup);
}

} // namespace mt::jinja
