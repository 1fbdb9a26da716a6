#include "runtime/jinja/Numbers.h"

#include "runtime/jinja/Text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace mt::jinja {
namespace {

Status tooLarge() { return fail("an integer has more than 64 bits: larger ones are not supported"); }

/// The remainder has the divisor's sign, as Python's.
int64_t floorModulo(int64_t a, int64_t b) {
  int64_t remainder = b == -1 ? 0 : a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double floorModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder == 0)
    return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double floorDivide(double a, double b) {
  double quotient = (a - floorModulo(a, b)) / b, whole = std::floor(quotient);
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Result<Value> power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0)
      return fail("zero cannot be raised to a negative power");
    return Value::of(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t made = 1;
  for (bool squares = false; exponent > 0; exponent >>= 1) {
    if (squares && __builtin_mul_overflow(base, base, &base))
      return tooLarge();
    squares = true;
    if ((exponent & 1) && __builtin_mul_overflow(made, base, &made))
      return tooLarge();
  }
  return Value::of(made);
}

Result<Value> ofIntegers(Arithmetic operation, int64_t a, int64_t b) {
  int64_t made = 0;
  bool overflows = false;
  switch (operation) {
  case Arithmetic::Add:
    overflows = __builtin_add_overflow(a, b, &made);
    break;
  case Arithmetic::Subtract:
    overflows = __builtin_sub_overflow(a, b, &made);
    break;
  case Arithmetic::Multiply:
    overflows = __builtin_mul_overflow(a, b, &made);
    break;
  case Arithmetic::Divide:
    return Value::of(static_cast<double>(a) / static_cast<double>(b));
  case Arithmetic::FloorDivide:
    overflows = a == INT64_MIN && b == -1;
    made = overflows ? 0 : (a - floorModulo(a, b)) / b;
    break;
  case Arithmetic::Modulo:
    made = floorModulo(a, b);
    break;
  case Arithmetic::Power:
    return power(a, b);
  }
  return overflows ? Result<Value>(tooLarge()) : Value::of(made);
}

Result<Value> ofReals(Arithmetic operation, double a, double b) {
  switch (operation) {
  case Arithmetic::Add:
    return Value::of(a + b);
  case Arithmetic::Subtract:
    return Value::of(a - b);
  case Arithmetic::Multiply:
    return Value::of(a * b);
  case Arithmetic::Divide:
    return Value::of(a / b);
  case Arithmetic::FloorDivide:
    return Value::of(floorDivide(a, b));
  case Arithmetic::Modulo:
    return Value::of(floorModulo(a, b));
  case Arithmetic::Power:
    break;
  }
  if (a == 0 && b < 0)
    return fail("zero cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && std::floor(b) != b)
    return fail("a root of a negative number is complex, which is not supported");
  double made = std::pow(a, b);
  if (std::isinf(made) && std::isfinite(a) && std::isfinite(b))
    return fail("a power is too large for a float");
  return Value::of(made);
}

bool divides(Arithmetic operation) {
  return operation == Arithmetic::Divide || operation == Arithmetic::FloorDivide || operation == Arithmetic::Modulo;
}

/// Without the underscores that Python allows between digits; nothing, if one stands elsewhere.
std::optional<std::string> withoutUnderscores(std::string_view text) {
  std::string digits;
  auto digit = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      digits += text[i];
    else if (i == 0 || i + 1 == text.size() || !digit(text[i - 1]) || !digit(text[i + 1]))
      return std::nullopt;
  }
  return digits;
}

/// Takes "0x", "0o" or "0b" away, and says which base it means; 0 where there is none.
int64_t takePrefix(std::string_view &digits) {
  if (digits.size() < 3 || digits[0] != '0')
    return 0;
  char kind = static_cast<char>(digits[1] | 0x20);
  int64_t base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  if (base != 0)
    digits.remove_prefix(2);
  return base;
}

} // namespace

Result<Value> calculated(Arithmetic operation, const Value &left, const Value &right) {
  if (divides(operation) && right.asReal() == 0)
    return fail("division by zero");
  if (left.whole() && right.whole())
    return ofIntegers(operation, left.integer, right.integer);
  return ofReals(operation, left.asReal(), right.asReal());
}

std::string writtenFloat(double number) {
  if (std::isnan(number))
    return "nan";
  if (std::isinf(number))
    return number < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer = {};
  auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(number), std::chars_format::scientific);
  std::string_view whole(buffer.data(), static_cast<size_t>(end.ptr - buffer.data()));
  size_t mark = whole.find('e');
  int exponent = std::atoi(whole.substr(mark + 1).data());
  std::string digits(1, whole[0]);
  if (mark > 2)
    digits += whole.substr(2, mark - 2);
  std::string made = std::signbit(number) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    made += digits.substr(0, 1) + (digits.size() > 1 ? "." + digits.substr(1) : "");
    return made + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0)
    return made + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  auto before = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= before)
    return made + digits + std::string(before - digits.size(), '0') + ".0";
  return made + digits.substr(0, before) + "." + digits.substr(before);
}

Result<std::optional<int64_t>> readInteger(std::string_view text, int64_t base) {
  text = strippedRight(strippedLeft(text));
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+'))
    text.remove_prefix(1);
  std::string_view rest = text;
  if (int64_t prefix = takePrefix(rest); prefix != 0 && (prefix == base || base == 0)) {
    base = prefix;
    text = rest[0] == '_' ? rest.substr(1) : rest;
  } else if (base == 0) {
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::optional<int64_t>();
    base = 10;
  }
  if (base < 2 || base > 36)
    return std::optional<int64_t>();
  std::optional<std::string> digits = withoutUnderscores(text);
  if (!digits || digits->empty() || (*digits)[0] == '-')
    return std::optional<int64_t>();
  digits->insert(0, negative ? "-" : "");
  int64_t made = 0;
  auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), made, static_cast<int>(base));
  if (end != digits->data() + digits->size())
    return std::optional<int64_t>();
  if (error == std::errc::result_out_of_range)
    return tooLarge();
  return error == std::errc() ? std::optional(made) : std::nullopt;
}

std::optional<double> readFloat(std::string_view text) {
  std::optional<std::string> digits = withoutUnderscores(strippedRight(strippedLeft(text)));
  if (!digits)
    return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+'))
    rest.remove_prefix(1);
  std::string word = lower(rest);
  if (word == "inf" || word == "infinity")
    return negative ? -HUGE_VAL : HUGE_VAL;
  if (word == "nan")
    return std::nan("");
  if (word.empty() || word.find_first_not_of("0123456789.e+-") != std::string::npos || word[0] == '-' || word[0] == '+')
    return std::nullopt;
  char *end = nullptr;
  double made = std::strtod(word.c_str(), &end); // huge ones are infinite, as Python's
  if (end != word.c_str() + word.size())
    return std::nullopt;
  return negative ? -made : made;
}

Result<int64_t> truncated(double number) {
  if (!std::isfinite(number))
    return fail("{} cannot be made an integer", writtenFloat(number));
  if (std::abs(number) >= 0x1p63)
    return tooLarge();
  return static_cast<int64_t>(number);
}

Result<Value> rounded(const Value &number, int64_t digits) {
  if (digits < 0)
    return fail("rounding to tens and hundreds (a negative precision) is not supported");
  if (number.whole() || !std::isfinite(number.real) || digits > 22)
    return number.whole() ? Value::of(number.integer) : number;
  return Value::of(std::strtod(fmt::format("{:.{}f}", number.real, digits).c_str(), nullptr));
}

} // namespace mt::jinja
