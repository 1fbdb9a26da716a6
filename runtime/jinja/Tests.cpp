// Tests: what stands behind `is`.
#include "runtime/jinja/Characters.h"
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"

#include <algorithm>

namespace mt::jinja {
namespace {

using Kind = Value::Kind;

template <bool (*is)(const Value &)> Result<Value> of(Heap &, const Value &subject, const Arguments &) {
  return Value::of(is(subject));
}

bool defined(const Value &value) { return !value.is(Kind::Undefined); }
bool undefined(const Value &value) { return value.is(Kind::Undefined); }
bool none(const Value &value) { return value.is(Kind::None); }
bool boolean(const Value &value) { return value.is(Kind::Boolean); }
bool isTrue(const Value &value) { return value.is(Kind::Boolean) && value.integer != 0; }
bool isFalse(const Value &value) { return value.is(Kind::Boolean) && value.integer == 0; }
bool integer(const Value &value) { return value.is(Kind::Integer); }
bool real(const Value &value) { return value.is(Kind::Real); }
bool number(const Value &value) { return value.number(); }
bool text(const Value &value) { return value.is(Kind::Text); }
bool mapping(const Value &value) { return value.is(Kind::Dictionary); }
bool iterable(const Value &value) {
  return value.is(Kind::Text) || value.is(Kind::Sequence) || value.is(Kind::Dictionary) || value.is(Kind::Undefined);
}
bool sequence(const Value &value) { return value.is(Kind::Sequence) ? value.sequence->indexed() : iterable(value); }
bool callable(const Value &value) {
  return value.is(Kind::Undefined) || (value.is(Kind::Object) && value.object->callable());
}
bool hasMark(const Value &value) { return value.is(Kind::Text) && value.markup; }

Result<Value> remainderIs(const Value &subject, const Value &divisor, int64_t wanted, Heap &heap) {
  MT_ASSIGN(Value rest, combined(heap, Arithmetic::Modulo, subject, divisor));
  return Value::of(equal(heap, rest, Value::of(wanted)));
}
Result<Value> odd(Heap &heap, const Value &subject, const Arguments &) {
  return remainderIs(subject, Value::of(int64_t{2}), 1, heap);
}
Result<Value> even(Heap &heap, const Value &subject, const Arguments &) {
  return remainderIs(subject, Value::of(int64_t{2}), 0, heap);
}
Result<Value> divisibleBy(Heap &heap, const Value &subject, const Arguments &arguments) {
  return remainderIs(subject, arguments[0], 0, heap);
}

template <bool wanted> Result<Value> equals(Heap &heap, const Value &subject, const Arguments &arguments) {
  return Value::of(equal(heap, subject, arguments[0]) == wanted);
}

template <bool (*is)(std::partial_ordering)>
Result<Value> compares(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::partial_ordering order, ordered(heap, subject, arguments[0]));
  return Value::of(is(order));
}

Result<Value> within(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(bool found, holds(heap, arguments[0], subject));
  return Value::of(found);
}

/// Python's `is`: of containers and objects, the same one; of values, the same kind and value.
Result<Value> sameAs(Heap &heap, const Value &subject, const Arguments &arguments) {
  const Value &other = arguments[0];
  if (subject.kind != other.kind)
    return Value::of(false);
  if (subject.is(Kind::Sequence))
    return Value::of(subject.sequence == other.sequence);
  if (subject.is(Kind::Dictionary))
    return Value::of(subject.dictionary == other.dictionary);
  return Value::of(equal(heap, subject, other));
}

template <const char *const *method>
Result<Value> asMethod(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view written, printed(heap, subject));
  const Value of = Value::of(written);
  return callNative(*findMethod(of, *method), heap, of, arguments);
}
constexpr const char *kIsLower = "islower", *kIsUpper = "isupper";

template <const Native *(*find)(std::string_view)>
Result<Value> named(Heap &, const Value &subject, const Arguments &) {
  return Value::of(subject.is(Kind::Text) && find(subject.text) != nullptr);
}

constexpr Native kTests[] = {
    {"!=", "other", 1, equals<false>},
    {"<", "other", 1, compares<std::is_lt>},
    {"<=", "other", 1, compares<std::is_lteq>},
    {"==", "other", 1, equals<true>},
    {">", "other", 1, compares<std::is_gt>},
    {">=", "other", 1, compares<std::is_gteq>},
    {"boolean", "", 0, of<boolean>},
    {"callable", "", 0, of<callable>},
    {"defined", "", 0, of<defined>},
    {"divisibleby", "num", 1, divisibleBy},
    {"eq", "other", 1, equals<true>},
    {"equalto", "other", 1, equals<true>},
    {"escaped", "", 0, of<hasMark>},
    {"even", "", 0, even},
    {"false", "", 0, of<isFalse>},
    {"filter", "", 0, named<findFilter>},
    {"float", "", 0, of<real>},
    {"ge", "other", 1, compares<std::is_gteq>},
    {"greaterthan", "other", 1, compares<std::is_gt>},
    {"gt", "other", 1, compares<std::is_gt>},
    {"in", "seq", 1, within},
    {"integer", "", 0, of<integer>},
    {"iterable", "", 0, of<iterable>},
    {"le", "other", 1, compares<std::is_lteq>},
    {"lessthan", "other", 1, compares<std::is_lt>},
    {"lower", "", 0, asMethod<&kIsLower>},
    {"lt", "other", 1, compares<std::is_lt>},
    {"mapping", "", 0, of<mapping>},
    {"ne", "other", 1, equals<false>},
    {"none", "", 0, of<none>},
    {"number", "", 0, of<number>},
    {"odd", "", 0, odd},
    {"sameas", "other", 1, sameAs},
    {"sequence", "", 0, of<sequence>},
    {"string", "", 0, of<text>},
    {"test", "", 0, named<findTest>},
    {"true", "", 0, of<isTrue>},
    {"undefined", "", 0, of<undefined>},
    {"upper", "", 0, asMethod<&kIsUpper>},
};

} // namespace

const Native *findTest(std::string_view name) {
  auto found = std::ranges::find(kTests, name, &Native::name);
  return found == std::end(kTests) ? nullptr : found;
}

} // namespace mt::jinja
