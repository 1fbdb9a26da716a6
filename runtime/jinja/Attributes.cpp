#include "runtime/jinja/Attributes.h"

#include "runtime/jinja/Functions.h"
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

/// Methods of Python that templates might call and that nothing here does.
bool unsupportedMethod(const Value &value, std::string_view name) {
  static constexpr std::string_view kOfText[] = {"encode",    "format_map", "maketrans",
                                                 "translate", "casefold",   "isidentifier"};
  static constexpr std::string_view kOfDictionaries[] = {"fromkeys"};
  if (value.is(Value::Kind::Dictionary))
    return std::ranges::find(kOfDictionaries, name) != std::end(kOfDictionaries);
  return value.is(Value::Kind::Text) && std::ranges::find(kOfText, name) != std::end(kOfText);
}

/// What getattr of Python finds: methods, and attributes of objects.
Result<std::optional<Value>> pythonAttribute(Heap &heap, const Value &value, std::string_view name) {
  if (value.is(Value::Kind::Object))
    return value.object->attribute(heap, name);
  if (const Native *method = findMethod(value, name))
    return std::optional(Value::of(static_cast<Object *>(heap.object<BoundMethod>(*method, value))));
  if (forbiddenMethod(value, name))
    return std::optional(Value::undefined(name)); // calling it is the error
  if (unsupportedMethod(value, name))
    return fail("the method {} of {} is not supported", name, nameOf(value));
  return std::optional<Value>();
}

} // namespace

Result<Value> attributeOf(Heap &heap, const Value &value, std::string_view name) {
  if (value.is(Value::Kind::Undefined))
    return undefinedError(value);
  MT_ASSIGN(std::optional<Value> found, pythonAttribute(heap, value, name));
  if (found)
    return *found;
  MT_ASSIGN(std::optional<Value> item, itemOf(heap, value, Value::of(name)));
  return item ? *item : Value::undefined(name);
}

Result<Value> subscriptOf(Heap &heap, const Value &value, const Value &key) {
  if (value.is(Value::Kind::Undefined))
    return undefinedError(value);
  MT_ASSIGN(std::optional<Value> item, itemOf(heap, value, key));
  if (item)
    return *item;
  if (!key.is(Value::Kind::Text))
    return Value::undefined(key.is(Value::Kind::Undefined) ? key.text : "an item");
  MT_ASSIGN(std::optional<Value> found, pythonAttribute(heap, value, key.text));
  return found ? *found : Value::undefined(key.text);
}

Result<Value> attributePath(Heap &heap, Value value, const Value &path, const Value &otherwise) {
  if (path.missing() || path.is(Value::Kind::None))
    return value;
  std::vector<std::string_view> parts = {std::string_view()};
  if (path.is(Value::Kind::Text))
    parts = split(path.text, ".", SIZE_MAX);
  else if (!path.is(Value::Kind::Integer))
    return fail("an attribute must be text or an integer, not {}", nameOf(path));
  for (std::string_view part : parts) {
    const bool number =
        !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string_view::npos;
    Value key = !path.is(Value::Kind::Text) ? path
                : number                    ? Value::of(int64_t{std::atoll(std::string(part).c_str())})
                                            : Value::of(part);
    MT_ASSIGN(value, subscriptOf(heap, value, key));
    if (value.is(Value::Kind::Undefined) && !otherwise.missing() && !otherwise.is(Value::Kind::None))
      value = otherwise;
  }
  return value;
}

} // namespace mt::jinja
