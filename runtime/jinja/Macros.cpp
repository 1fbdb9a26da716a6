#include "runtime/jinja/Macros.h"

namespace mt::jinja {

std::optional<Value> Macro::attribute(Heap &, std::string_view name) {
  return name == "name" ? std::optional(Value::of(std::string_view(macro.name))) : std::nullopt;
}

std::optional<std::string> Macro::written() const {
  return macro.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro '{}'>", macro.name);
}

Result<Value> Macro::call(Render &render, const Arguments &arguments) {
  Scope *inner = macro.body.newScope(render, scope);
  MT_TRY(bind(render, arguments, *inner));
  std::string text;
  MT_TRY(render.capture(macro.body, inner, text).status());
  return render.heap.text(std::move(text));
}

/// Parameters first; a default may refer to those before it.
Status Macro::bind(Render &render, const Arguments &arguments, Scope &inner) const {
  std::vector<bool> taken(arguments.named.size());
  std::vector<const Expression *> defaults(macro.parameters.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const auto &[name, otherwise] = macro.parameters[i];
    Value value = i < arguments.positional.size() ? arguments[i] : Value();
    for (size_t k = 0; value.missing() && k < taken.size(); ++k)
      if (arguments.named[k].first == name) {
        value = arguments.named[k].second;
        taken[k] = true;
      }
    if (value.missing() && otherwise)
      defaults[i] = otherwise.get();
    inner.set(name, value.missing() ? Value::undefined(name) : value);
  }
  MT_TRY(bindRest(render, arguments, std::move(taken), inner));
  Within within(render, &inner);
  for (size_t i = 0; i < defaults.size(); ++i)
    if (defaults[i]) {
      MT_ASSIGN(Value value, defaults[i]->evaluate(render));
      inner.set(macro.parameters[i].first, value);
    }
  return {};
}

Status Macro::bindRest(Render &render, const Arguments &arguments, std::vector<bool> taken, Scope &inner) const {
  const size_t count = macro.parameters.size();
  if (arguments.positional.size() > count && !macro.takesMore)
    return fail("{} takes {} arguments, not {}", shown(), count, arguments.positional.size());
  if (macro.takesCaller)
    inner.set("caller", Value::undefined("caller"));
  std::vector<std::pair<Value, Value>> named;
  for (size_t k = 0; k < taken.size(); ++k) {
    const auto &[name, value] = arguments.named[k];
    if (taken[k])
      continue;
    if (macro.takesCaller && name == "caller")
      inner.set("caller", value);
    else if (macro.takesNamed)
      named.emplace_back(Value::of(name), value);
    else
      return fail("{} has no argument {}, or it is given twice", shown(), name);
  }
  if (macro.takesNamed) {
    MT_ASSIGN(Value kwargs, render.heap.dictionary(std::move(named)));
    inner.set("kwargs", kwargs);
  }
  if (macro.takesMore) {
    std::vector<Value> more;
    for (size_t i = count; i < arguments.positional.size(); ++i)
      more.push_back(arguments[i]);
    MT_ASSIGN(Value varargs, render.heap.sequence(Sequence::Kind::Tuple, std::move(more)));
    inner.set("varargs", varargs);
  }
  return {};
}

} // namespace mt::jinja
