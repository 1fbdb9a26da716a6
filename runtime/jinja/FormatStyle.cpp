#include "runtime/jinja/FormatStyle.h"

#include "runtime/jinja/Text.h"

#include <algorithm>
#include <cmath>

namespace mt::jinja {
namespace {

std::string grouped(std::string digits) {
  size_t end = std::min(digits.find('.'), digits.find('e'));
  end = std::min(end, digits.size());
  for (size_t at = end; at > 3; at -= 3)
    digits.insert(at - 3, ",");
  return digits;
}

std::string writtenGeneral(double number, int64_t precision, bool upper) {
  return upper ? fmt::format("{:.{}G}", number, precision) : fmt::format("{:.{}g}", number, precision);
}

/// A number without its sign. Errors: no such kind.
Result<std::string> digitsOf(const Value &value, const FormatStyle &style) {
  const double real = std::abs(value.asReal());
  const int64_t precision = style.precision < 0 ? 6 : style.precision;
  const uint64_t whole =
      value.whole() ? value.integer < 0 ? -static_cast<uint64_t>(value.integer) : static_cast<uint64_t>(value.integer)
                    : 0;
  switch (style.kind) {
  case 'd':
    return std::to_string(whole);
  case 'x':
    return fmt::format("{}{:x}", style.alternate ? "0x" : "", whole);
  case 'X':
    return fmt::format("{}{:X}", style.alternate ? "0X" : "", whole);
  case 'o':
    return fmt::format("{}{:o}", style.alternate ? "0o" : "", whole);
  case 'b':
    return fmt::format("{}{:b}", style.alternate ? "0b" : "", whole);
  case 'f':
  case 'F':
    return fmt::format("{:.{}f}", real, precision);
  case 'e':
    return fmt::format("{:.{}e}", real, precision);
  case 'E':
    return fmt::format("{:.{}E}", real, precision);
  case 'g':
  case 'G':
    return writtenGeneral(real, std::max<int64_t>(1, precision), style.kind == 'G');
  case '%':
    return fmt::format("{:.{}f}%", real * 100, precision);
  default:
    return fail("the format's kind '{}' is not supported", std::string_view(&style.kind, 1));
  }
}

} // namespace

Result<int64_t> readCount(std::string_view format, size_t &at, int64_t most) {
  int64_t count = 0;
  for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at)
    if (count = count * 10 + (format[at] - '0'); count > most)
      return fail("a format asks for a width or precision of more than {}", most);
  return count;
}

Result<std::string> padded(std::string_view sign, std::string_view body, const FormatStyle &style, char align) {
  const auto length = static_cast<int64_t>(codePoints(body) + sign.size());
  if (length >= style.width)
    return std::string(sign).append(body);
  const auto missing = static_cast<size_t>(style.width - length);
  auto filled = [&](size_t times) {
    std::string made;
    for (size_t i = 0; i < times; ++i)
      made += style.fill;
    return made;
  };
  if (align == '=')
    return std::string(sign) + filled(missing).append(body);
  const size_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  return filled(before).append(sign).append(body) + filled(missing - before);
}

Result<std::string> formattedNumber(const Value &value, FormatStyle style) {
  const bool negative = value.is(Value::Kind::Real) ? std::signbit(value.real) : value.integer < 0;
  MT_ASSIGN(std::string digits, digitsOf(value, style));
  if (style.thousands)
    digits = grouped(std::move(digits));
  const std::string_view sign = negative ? "-" : style.sign == '+' ? "+" : style.sign == ' ' ? " " : "";
  return padded(sign, digits, style, style.align ? style.align : '>');
}

Result<std::string> formattedText(std::string_view text, const FormatStyle &style) {
  if (style.precision >= 0)
    text = text.substr(0, byteOf(text, static_cast<size_t>(style.precision)));
  return padded("", text, style, style.align ? style.align : '<');
}

} // namespace mt::jinja
