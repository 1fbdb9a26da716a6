// Macros as values: a definition and the scope where it stands. The body of a call block is one too.
#ifndef MT_RUNTIME_JINJA_MACROS_H
#define MT_RUNTIME_JINJA_MACROS_H

#include "runtime/jinja/Syntax.h"

namespace mt::jinja {

class Macro : public Object {
public:
  Macro(const MacroOf &macro, Scope *scope) : macro(macro), scope(scope) {}
  std::string_view name() const override { return "a macro"; }
  std::optional<std::string> written() const override;
  bool callable() const override { return true; }
  std::optional<Value> attribute(Heap &heap, std::string_view name) override;
  Result<Value> call(Render &render, const Arguments &arguments) override;

private:
  const MacroOf &macro;
  Scope *scope;

  /// For messages.
  std::string shown() const { return macro.name.empty() ? "caller" : "the macro " + macro.name; }
  Status bind(Render &render, const Arguments &arguments, Scope &inner) const;
  Status bindRest(Render &render, const Arguments &arguments, std::vector<bool> taken, Scope &inner) const;
};

} // namespace mt::jinja
#endif
