#include "runtime/jinja/Value.h"

namespace mt::jinja {

Value Value::undefined(std::string_view name) {
  Value value;
  value.kind = Kind::Undefined;
  value.text = name;
  return value;
}

Value Value::none() {
  Value value;
  value.kind = Kind::None;
  return value;
}

Value Value::of(bool truth) {
  Value value;
  value.kind = Kind::Boolean;
  value.integer = truth;
  return value;
}

Value Value::of(int64_t number) {
  Value value;
  value.kind = Kind::Integer;
  value.integer = number;
  return value;
}

Value Value::of(double number) {
  Value value;
  value.kind = Kind::Real;
  value.real = number;
  return value;
}

Value Value::of(std::string_view text) {
  Value value;
  value.kind = Kind::Text;
  value.text = text;
  return value;
}

Value Value::of(const Sequence *sequence) {
  Value value;
  value.kind = Kind::Sequence;
  value.sequence = sequence;
  return value;
}

Value Value::of(const Dictionary *dictionary) {
  Value value;
  value.kind = Kind::Dictionary;
  value.dictionary = dictionary;
  return value;
}

Value Value::of(Object *object) {
  Value value;
  value.kind = Kind::Object;
  value.object = object;
  return value;
}

Result<Value> Object::call(Render &, const Arguments &) { return fail("{} cannot be called", name()); }

bool truthOf(const Value &value) {
  switch (value.kind) {
  case Value::Kind::Missing:
  case Value::Kind::Undefined:
  case Value::Kind::None:
    return false;
  case Value::Kind::Boolean:
  case Value::Kind::Integer:
    return value.integer != 0;
  case Value::Kind::Real:
    return value.real != 0;
  case Value::Kind::Text:
    return !value.text.empty();
  case Value::Kind::Sequence:
    return value.sequence->kind == Sequence::Kind::Iterator || !value.sequence->items.empty();
  case Value::Kind::Dictionary:
    return !value.dictionary->entries.empty();
  case Value::Kind::Object:
    return true;
  }
  return false;
}

std::string_view nameOf(const Value &value) {
  switch (value.kind) {
  case Value::Kind::Missing:
    return "nothing";
  case Value::Kind::Undefined:
    return "undefined";
  case Value::Kind::None:
    return "None";
  case Value::Kind::Boolean:
    return "a boolean";
  case Value::Kind::Integer:
    return "an integer";
  case Value::Kind::Real:
    return "a float";
  case Value::Kind::Text:
    return "text";
  case Value::Kind::Sequence:
    switch (value.sequence->kind) {
    case Sequence::Kind::List:
      return "a list";
    case Sequence::Kind::Tuple:
      return "a tuple";
    case Sequence::Kind::Range:
      return "a range";
    case Sequence::Kind::Iterator:
      return "an iterator";
    default:
      return "a view of a dictionary";
    }
  case Value::Kind::Dictionary:
    return "a dictionary";
  case Value::Kind::Object:
    return value.object->name();
  }
  return "nothing";
}

Status undefinedError(const Value &value) { return fail("'{}' is undefined", value.text); }

} // namespace mt::jinja
