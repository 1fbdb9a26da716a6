#include "runtime/jinja/Natives.h"

#include <algorithm>

namespace mt::jinja {
namespace {

const Native *findIn(std::span<const Native> table, std::string_view name) {
  auto found = std::ranges::find(table, name, &Native::name);
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string_view> namesOf(std::string_view parameters) {
  std::vector<std::string_view> names;
  while (!parameters.empty()) {
    size_t end = std::min(parameters.find(' '), parameters.size());
    names.push_back(parameters.substr(0, end));
    parameters.remove_prefix(std::min(end + 1, parameters.size()));
  }
  return names;
}

} // namespace

const Native *findFilter(std::string_view name) {
  for (std::span<const Native> table : {textFilters(), sequenceFilters(), numberFilters()})
    if (const Native *found = findIn(table, name))
      return found;
  return nullptr;
}

const Native *findMethod(const Value &subject, std::string_view name) {
  if (subject.is(Value::Kind::Text))
    return findIn(textMethods(), name);
  if (subject.is(Value::Kind::Dictionary))
    return findIn(dictionaryMethods(), name);
  return subject.is(Value::Kind::Sequence) && subject.sequence->indexed() ? findIn(sequenceMethods(), name) : nullptr;
}

bool forbiddenMethod(const Value &subject, std::string_view name) {
  static constexpr std::string_view kOfLists[] = {"append", "reverse", "insert", "sort",
                                                  "extend", "remove",  "pop",    "clear"};
  static constexpr std::string_view kOfDictionaries[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (subject.is(Value::Kind::Dictionary))
    return std::ranges::find(kOfDictionaries, name) != std::end(kOfDictionaries);
  return subject.is(Value::Kind::Sequence) && subject.sequence->kind == Sequence::Kind::List &&
         std::ranges::find(kOfLists, name) != std::end(kOfLists);
}

Result<Value> callNative(const Native &native, Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_TRY(heap.checked());
  if (native.parameters == "*")
    return native.body(heap, subject, arguments);
  const std::vector<std::string_view> names = namesOf(native.parameters);
  if (arguments.positional.size() > names.size())
    return fail("{} takes {} arguments, not {}", native.name, names.size(), arguments.positional.size());
  Arguments bound = {.positional = arguments.positional, .named = {}};
  bound.positional.resize(names.size());
  for (const auto &[name, value] : arguments.named) {
    auto place = std::ranges::find(names, name);
    if (place == names.end())
      return fail("{} has no argument {}", native.name, name);
    Value &slot = bound.positional[static_cast<size_t>(place - names.begin())];
    if (!slot.missing())
      return fail("{} is given its argument {} twice", native.name, name);
    slot = value;
  }
  for (size_t i = 0; i < native.required; ++i)
    if (bound[i].missing())
      return fail("{} needs its argument {}", native.name, names[i]);
  return native.body(heap, subject, bound);
}

Result<int64_t> integerOr(const Value &given, int64_t otherwise, std::string_view parameter) {
  if (given.missing())
    return otherwise;
  if (given.whole())
    return given.integer;
  return given.is(Value::Kind::Undefined) ? undefinedError(given)
                                          : fail("{} must be an integer, not {}", parameter, nameOf(given));
}

Result<std::string_view> textOr(const Value &given, std::string_view otherwise, std::string_view parameter) {
  if (given.missing())
    return otherwise;
  if (given.is(Value::Kind::Text))
    return given.text;
  return given.is(Value::Kind::Undefined) ? undefinedError(given)
                                          : fail("{} must be text, not {}", parameter, nameOf(given));
}

} // namespace mt::jinja
