// Filters of numbers, and default.
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Numbers.h"

#include <cmath>

namespace mt::jinja {
namespace {

Result<Value> absolute(Heap &, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Real))
    return Value::of(std::abs(subject.real));
  if (!subject.whole())
    return subject.is(Value::Kind::Undefined) ? undefinedError(subject)
                                              : fail("abs takes a number, not {}", nameOf(subject));
  return subject.integer < 0 ? calculated(Arithmetic::Subtract, Value::of(int64_t{0}), subject)
                             : Value::of(subject.integer);
}

/// int(value), or nothing where Python raises TypeError or ValueError.
Result<std::optional<int64_t>> wholeOf(const Value &value, int64_t base) {
  if (value.whole())
    return std::optional(value.integer);
  if (value.is(Value::Kind::Real)) {
    if (std::isnan(value.real))
      return std::optional<int64_t>();
    MT_ASSIGN(int64_t whole, truncated(value.real));
    return std::optional(whole);
  }
  if (!value.is(Value::Kind::Text))
    return std::optional<int64_t>();
  MT_ASSIGN(std::optional<int64_t> whole, readInteger(value.text, base));
  if (whole)
    return whole;
  std::optional<double> real = readFloat(value.text);
  if (!real || !std::isfinite(*real))
    return std::optional<int64_t>();
  MT_ASSIGN(int64_t cut, truncated(*real));
  return std::optional(cut);
}

Result<Value> toInteger(Heap &, const Value &subject, const Arguments &arguments) {
  if (subject.is(Value::Kind::Undefined))
    return undefinedError(subject);
  MT_ASSIGN(int64_t base, integerOr(arguments[1], 10, "the base"));
  MT_ASSIGN(std::optional<int64_t> whole, wholeOf(subject, base));
  return whole ? Value::of(*whole) : arguments[0].missing() ? Value::of(int64_t{0}) : arguments[0];
}

Result<Value> toFloat(Heap &, const Value &subject, const Arguments &arguments) {
  if (subject.is(Value::Kind::Undefined))
    return undefinedError(subject);
  if (subject.number())
    return Value::of(subject.asReal());
  std::optional<double> real = subject.is(Value::Kind::Text) ? readFloat(subject.text) : std::nullopt;
  return real ? Value::of(*real) : arguments[0].missing() ? Value::of(0.0) : arguments[0];
}

Result<Value> round(Heap &, const Value &subject, const Arguments &arguments) {
  if (!subject.number())
    return subject.is(Value::Kind::Undefined) ? undefinedError(subject)
                                              : fail("round takes a number, not {}", nameOf(subject));
  MT_ASSIGN(int64_t precision, integerOr(arguments[0], 0, "the precision"));
  MT_ASSIGN(std::string_view method, textOr(arguments[1], "common", "the method"));
  if (method == "common")
    return rounded(subject, precision);
  if (method != "ceil" && method != "floor")
    return fail("round's method is common, ceil or floor, not '{}'", method);
  if (precision < 0 || precision > 18)
    return fail("round's precision must be from 0 to 18 here, not {}", precision);
  const double scale = std::pow(10.0, static_cast<double>(precision)), scaled = subject.asReal() * scale;
  return Value::of((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Result<Value> defaultTo(Heap &, const Value &subject, const Arguments &arguments) {
  if (subject.is(Value::Kind::Undefined) || (truthOf(arguments[1]) && !truthOf(subject)))
    return arguments[0].missing() ? Value::of(std::string_view()) : arguments[0];
  return subject;
}

constexpr Native kFilters[] = {
    {"abs", "", 0, absolute},
    {"d", "default_value boolean", 0, defaultTo},
    {"default", "default_value boolean", 0, defaultTo},
    {"float", "default", 0, toFloat},
    {"int", "default base", 0, toInteger},
    {"round", "precision method", 0, round},
};

} // namespace

std::span<const Native> numberFilters() { return kFilters; }

} // namespace mt::jinja
