// The state of one rendering: what it makes (Heap), variables in scopes, where text goes, how deep it is. One thread's;
// the syntax that it runs is shared and does not change.
#ifndef MT_RUNTIME_JINJA_RENDER_H
#define MT_RUNTIME_JINJA_RENDER_H

#include "runtime/jinja/Heap.h"
#include "runtime/jinja/Template.h"

#include <nlohmann/json_fwd.hpp>

#include <deque>
#include <string>

namespace mt::jinja {

struct Body;
enum class Flow;

/// Variables of a block; a name that is not here is looked for around it.
struct Scope {
  Scope *around = nullptr;
  std::vector<std::pair<std::string_view, Value>> names;
  void set(std::string_view name, const Value &value);
};

class Render {
public:
  Render() { scope = newScope(); }

  Heap heap;
  Scope *scope = nullptr; ///< the innermost
  std::vector<Span> generated;

  /// Variables of the template, from the fields of an object. Errors: what is no UTF-8, or is too large or too deep.
  Status define(const nlohmann::ordered_json &variables);
  /// A variable, a function, or undefined.
  Value find(std::string_view name);
  /// A scope within another, or within the innermost. Lives as long as the render: macros may refer to it.
  Scope *newScope(Scope *around = nullptr);

  /// Writes text. Errors: there is too much of it.
  Status write(std::string_view text);
  size_t written() const { return out->size(); }
  std::string take() { return std::move(text); }
  /// Runs a body in a scope; what it writes goes to a text of its own.
  Result<Flow> capture(const Body &body, Scope *within, std::string &captured);

  /// One step deeper. Errors: too deep, too much work.
  Status enter();
  void leave() { --depth; }
  /// The error with its line before it, unless it has one.
  Status placed(const Status &status, int line);

private:
  std::deque<Scope> scopes;
  std::string text;
  std::string *out = &text;
  int depth = 0;
  bool hasPlace = false;
};

/// Makes a scope the innermost one while it lives.
class Within {
public:
  Within(Render &render, Scope *scope) : render(render), before(render.scope) { render.scope = scope; }
  ~Within() { render.scope = before; }
  Within(const Within &) = delete;
  Within &operator=(const Within &) = delete;

private:
  Render &render;
  Scope *before;
};

} // namespace mt::jinja
#endif
