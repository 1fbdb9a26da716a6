// Objects out of a tokenizer.json, read field by field: what is missing, has the wrong type or is unknown is an error
// that names the place ("pre_tokenizer", "pretokenizers", entry 2). Values live as long as the document.
#ifndef MT_RUNTIME_TOKENIZER_FIELDS_H
#define MT_RUNTIME_TOKENIZER_FIELDS_H

#include "runtime/base/Status.h"

#include <simdjson.h>

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

using JsonValue = simdjson::dom::element;

class Fields {
public:
  /// `where`: what the object is, for messages.
  static Result<Fields> of(JsonValue value, std::string where);

  const std::string &where() const { return place; }
  /// The field's value; nothing where it is missing or null.
  std::optional<JsonValue> find(std::string_view name) const;
  Result<JsonValue> need(std::string_view name) const;
  Result<std::string_view> text(std::string_view name) const;
  /// `usual`: the value of a field that is not there; without, it must be.
  Result<bool> flag(std::string_view name, std::optional<bool> usual = std::nullopt) const;
  Result<uint64_t> number(std::string_view name, std::optional<uint64_t> usual = std::nullopt) const;
  /// An object in a field.
  Result<Fields> object(std::string_view name) const;
  /// A list of objects in a field.
  Result<std::vector<Fields>> objects(std::string_view name) const;
  /// An error where there are others than these; "type" may always be.
  Status only(std::initializer_list<std::string_view> names) const;

  template <typename... Args> Status fail(fmt::format_string<Args...> format, Args &&...args) const {
    return mt::fail(format, std::forward<Args>(args)...).within(place);
  }

private:
  Fields(simdjson::dom::object object, std::string place) : object_(object), place(std::move(place)) {}
  simdjson::dom::object object_;
  std::string place;
};

/// A text value; `what` names it in the error.
Result<std::string_view> textOf(JsonValue value, const std::string &what);
/// What a value is, for messages: "a list".
std::string_view kindOf(JsonValue value);

} // namespace mt::tokenizer
#endif
