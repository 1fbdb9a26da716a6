#include "runtime/tokenizer/Fields.h"

#include <algorithm>

namespace mt::tokenizer {

using simdjson::dom::element_type;

std::string_view kindOf(JsonValue value) {
  switch (value.type()) {
  case element_type::ARRAY:
    return "a list";
  case element_type::OBJECT:
    return "an object";
  case element_type::STRING:
    return "a text";
  case element_type::BOOL:
    return "true or false";
  case element_type::NULL_VALUE:
    return "null";
  default:
    return "a number";
  }
}

Result<std::string_view> textOf(JsonValue value, const std::string &what) {
  std::string_view text;
  if (value.get(text))
    return fail("{} must be a text, and is {}", what, kindOf(value));
  return text;
}

Result<Fields> Fields::of(JsonValue value, std::string where) {
  simdjson::dom::object object;
  if (value.get(object))
    return mt::fail("{} must be an object, and is {}", where, kindOf(value));
  return Fields(object, std::move(where));
}

std::optional<JsonValue> Fields::find(std::string_view name) const {
  JsonValue value;
  if (object_.at_key(name).get(value) || value.is_null())
    return std::nullopt;
  return value;
}

Result<JsonValue> Fields::need(std::string_view name) const {
  std::optional<JsonValue> value = find(name);
  if (!value)
    return fail("no \"{}\"", name);
  return *value;
}

Result<std::string_view> Fields::text(std::string_view name) const {
  MT_ASSIGN(JsonValue value, need(name));
  return textOf(value, fmt::format("{}: \"{}\"", place, name));
}

Result<bool> Fields::flag(std::string_view name, std::optional<bool> usual) const {
  std::optional<JsonValue> value = find(name);
  if (!value && usual)
    return *usual;
  MT_ASSIGN(JsonValue there, need(name));
  bool flag = false;
  if (there.get(flag))
    return fail("\"{}\" must be true or false, and is {}", name, kindOf(there));
  return flag;
}

Result<uint64_t> Fields::number(std::string_view name, std::optional<uint64_t> usual) const {
  std::optional<JsonValue> value = find(name);
  if (!value && usual)
    return *usual;
  MT_ASSIGN(JsonValue there, need(name));
  uint64_t number = 0;
  if (there.get(number))
    return fail("\"{}\" must be a whole number of at least 0", name);
  return number;
}

Result<Fields> Fields::object(std::string_view name) const {
  MT_ASSIGN(JsonValue value, need(name));
  return of(value, fmt::format("{}: \"{}\"", place, name));
}

Result<std::vector<Fields>> Fields::objects(std::string_view name) const {
  MT_ASSIGN(JsonValue value, need(name));
  simdjson::dom::array list;
  if (value.get(list))
    return fail("\"{}\" must be a list, and is {}", name, kindOf(value));
  std::vector<Fields> all;
  for (JsonValue entry : list) {
    MT_ASSIGN(Fields fields, of(entry, fmt::format("{}: \"{}\", entry {}", place, name, all.size())));
    all.push_back(std::move(fields));
  }
  return all;
}

Status Fields::only(std::initializer_list<std::string_view> names) const {
  for (auto [key, value] : object_)
    if (key != "type" && std::ranges::find(names, key) == names.end())
      return fail("\"{}\" is not supported", key);
  return Status();
}

} // namespace mt::tokenizer
