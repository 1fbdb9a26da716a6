// What expressions give.
#include "runtime/jinja/Attributes.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Syntax.h"

namespace mt::jinja {
namespace {

/// None for a part of a slice that is left out.
Result<Value> partOf(Render &render, const ExpressionPtr &part) {
  return part ? part->evaluate(render) : Result<Value>(Value::none());
}

Result<bool> compare(Heap &heap, Comparison comparison, const Value &left, const Value &right) {
  if (comparison == Comparison::Equal || comparison == Comparison::NotEqual)
    return equal(heap, left, right) == (comparison == Comparison::Equal);
  if (comparison == Comparison::In || comparison == Comparison::NotIn) {
    MT_ASSIGN(bool found, holds(heap, right, left));
    return found == (comparison == Comparison::In);
  }
  MT_ASSIGN(std::partial_ordering order, ordered(heap, left, right));
  switch (comparison) {
  case Comparison::Less:
    return order < 0;
  case Comparison::LessOrEqual:
    return order <= 0;
  case Comparison::Greater:
    return order > 0;
  default:
    return order >= 0;
  }
}

/// Adds what ** gives.
Status addNamed(Heap &heap, const Value &more, Arguments &arguments) {
  if (!more.is(Value::Kind::Dictionary))
    return fail("** takes a dictionary, not {}", nameOf(more));
  for (const auto &[name, value] : more.dictionary->entries) {
    if (!name.is(Value::Kind::Text))
      return fail("** takes a dictionary of names, not of {}", nameOf(name));
    for (const auto &[given, unused] : arguments.named)
      if (given == name.text)
        return fail("the argument {} is given twice", given);
    arguments.named.emplace_back(name.text, value);
  }
  heap.spend(more.dictionary->entries.size());
  return {};
}

} // namespace

Result<Value> Expression::evaluate(Render &render) const {
  if (Status status = render.enter(); !status.ok())
    return render.placed(status, line);
  Result<Value> value = compute(render);
  render.leave();
  if (Status worked = render.heap.checked(); value && !worked.ok())
    value = worked; // it may not be what it seems
  return value ? value : render.placed(value.status(), line);
}

Result<Arguments> ArgumentList::evaluate(Render &render) const {
  Arguments arguments;
  for (const ExpressionPtr &one : positional) {
    MT_ASSIGN(Value value, one->evaluate(render));
    arguments.positional.push_back(value);
  }
  for (const auto &[name, one] : named) {
    MT_ASSIGN(Value value, one->evaluate(render));
    arguments.named.emplace_back(name, value);
  }
  if (more) {
    MT_ASSIGN(Value list, more->evaluate(render));
    MT_ASSIGN(std::vector<Value> items, itemsOf(render.heap, list));
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  if (moreNamed) {
    MT_ASSIGN(Value entries, moreNamed->evaluate(render));
    MT_TRY(addNamed(render.heap, entries, arguments));
  }
  return arguments;
}

Result<Value> Name::compute(Render &render) const { return render.find(name); }

Result<Value> ListOf::compute(Render &render) const {
  std::vector<Value> values;
  for (const ExpressionPtr &item : items) {
    MT_ASSIGN(Value value, item->evaluate(render));
    values.push_back(value);
  }
  return render.heap.sequence(kind, std::move(values));
}

Result<Value> DictionaryOf::compute(Render &render) const {
  std::vector<std::pair<Value, Value>> made;
  for (const auto &[key, value] : entries) {
    MT_ASSIGN(Value name, key->evaluate(render));
    MT_ASSIGN(Value held, value->evaluate(render));
    MT_TRY(put(render.heap, made, name, held));
  }
  return render.heap.dictionary(std::move(made));
}

Result<Value> Attribute::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  return attributeOf(render.heap, value, name);
}

Result<Value> Item::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  MT_ASSIGN(Value which, key->evaluate(render));
  return subscriptOf(render.heap, value, which);
}

Result<Value> SliceOf::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  MT_ASSIGN(Value from, partOf(render, start));
  MT_ASSIGN(Value to, partOf(render, stop));
  MT_ASSIGN(Value by, partOf(render, step));
  return sliceOf(render.heap, value, from, to, by);
}

Result<Value> Call::callWith(Render &render, std::optional<std::pair<std::string_view, Value>> more) const {
  MT_ASSIGN(Value called, callee->evaluate(render));
  MT_ASSIGN(Arguments given, arguments.evaluate(render));
  if (more)
    given.named.push_back(*more);
  if (called.is(Value::Kind::Undefined))
    return undefinedError(called);
  if (!called.is(Value::Kind::Object))
    return fail("{} cannot be called", nameOf(called));
  return called.object->call(render, given);
}

Result<Value> Applied::apply(Render &render, const Value &value) const {
  if (!native)
    return fail("there is no filter or test {}, or it is not supported", name);
  MT_ASSIGN(Arguments given, arguments.evaluate(render));
  return callNative(*native, render.heap, value, given);
}

Result<Value> Applied::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  return apply(render, value);
}

Result<Value> Not::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  return Value::of(!truthOf(value));
}

Result<Value> Signed::compute(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  if (!value.number())
    return value.is(Value::Kind::Undefined) ? undefinedError(value) : fail("{} has no sign", nameOf(value));
  if (value.is(Value::Kind::Real))
    return Value::of(negative ? -value.real : value.real);
  return negative ? calculated(Arithmetic::Subtract, Value::of(int64_t{0}), value) : Value::of(value.integer);
}

Result<Value> Calculation::compute(Render &render) const {
  MT_ASSIGN(Value a, left->evaluate(render));
  MT_ASSIGN(Value b, right->evaluate(render));
  return combined(render.heap, operation, a, b);
}

Result<Value> Concatenation::compute(Render &render) const {
  std::string made;
  for (const ExpressionPtr &part : parts) {
    MT_ASSIGN(Value value, part->evaluate(render));
    MT_TRY(print(render.heap, value, made));
  }
  return render.heap.text(std::move(made));
}

Result<Value> Compared::compute(Render &render) const {
  MT_ASSIGN(Value left, first->evaluate(render));
  for (const auto &[comparison, other] : others) {
    MT_ASSIGN(Value right, other->evaluate(render));
    MT_ASSIGN(bool holding, compare(render.heap, comparison, left, right));
    if (!holding)
      return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Result<Value> Logical::compute(Render &render) const {
  MT_ASSIGN(Value value, left->evaluate(render));
  return truthOf(value) == both ? right->evaluate(render) : Result<Value>(value);
}

Result<Value> Conditional::compute(Render &render) const {
  MT_ASSIGN(Value value, test->evaluate(render));
  if (truthOf(value))
    return then->evaluate(render);
  return otherwise ? otherwise->evaluate(render) : Result<Value>(Value::undefined("the value of an if without else"));
}

} // namespace mt::jinja
