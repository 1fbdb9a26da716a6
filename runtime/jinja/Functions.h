// Objects that C++ makes: functions and methods that are rows of tables, and what namespace(), cycler() and joiner()
// give.
#ifndef MT_RUNTIME_JINJA_FUNCTIONS_H
#define MT_RUNTIME_JINJA_FUNCTIONS_H

#include "runtime/jinja/Natives.h"

#include <string>

namespace mt::jinja {

/// A method of a value, or a function, whose subject is Missing.
class BoundMethod : public Object {
public:
  BoundMethod(const Native &native, const Value &subject) : native(native), subject(subject) {}
  std::string_view name() const override { return subject.missing() ? "a function" : "a method"; }
  bool callable() const override { return true; }
  Result<Value> call(Render &render, const Arguments &arguments) override;

private:
  const Native &native;
  Value subject;
};

/// What {% set name.field = value %} may change.
class Namespace : public Object {
public:
  std::string_view name() const override { return "a namespace"; }
  std::optional<Value> attribute(Heap &heap, std::string_view name) override;
  /// Errors: a name that begins with an underscore.
  Status set(std::string_view name, const Value &value);

private:
  std::vector<std::pair<std::string_view, Value>> fields;
};

} // namespace mt::jinja
#endif
