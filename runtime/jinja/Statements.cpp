// What statements do, but for loops.
#include "runtime/jinja/Functions.h"
#include "runtime/jinja/Macros.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Syntax.h"

namespace mt::jinja {
namespace {

/// What a body writes, through filters; nothing, if it left the loop around it.
Result<Flow> runFiltered(Render &render, const Body &body, const std::vector<std::unique_ptr<Applied>> &filters,
                         Value &value) {
  std::string text;
  MT_ASSIGN(Flow flow, render.capture(body, body.newScope(render, render.scope), text));
  if (flow != Flow::Next)
    return flow;
  MT_ASSIGN(value, render.heap.text(std::move(text)));
  for (const std::unique_ptr<Applied> &filter : filters) {
    Result<Value> made = filter->apply(render, value);
    if (!made)
      return render.placed(made.status(), filter->line);
    value = *made;
  }
  return Flow::Next;
}

Status writeValue(Render &render, const Value &value) {
  MT_ASSIGN(std::string_view text, printed(render.heap, value));
  return render.write(text);
}

Object *macroValue(Render &render, const MacroOf &macro) { return render.heap.object<Macro>(macro, render.scope); }

} // namespace

Result<Flow> Statement::execute(Render &render) const {
  if (Status status = render.enter(); !status.ok())
    return render.placed(status, line);
  Result<Flow> flow = run(render);
  render.leave();
  return flow ? flow : render.placed(flow.status(), line);
}

Result<Flow> Body::execute(Render &render) const {
  for (const std::unique_ptr<Statement> &statement : statements) {
    MT_ASSIGN(Flow flow, statement->execute(render));
    if (flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

Scope *Body::newScope(Render &render, Scope *around) const {
  Scope *scope = render.newScope(around);
  for (const std::string &name : hidden)
    scope->set(name, Value::undefined(name));
  return scope;
}

Status Target::assign(Render &render, const Value &value) const {
  if (parts) {
    MT_ASSIGN(std::vector<Value> items, itemsOf(render.heap, value));
    if (items.size() != parts->size())
      return fail("{} values cannot be assigned to {} names", items.size(), parts->size());
    for (size_t i = 0; i < items.size(); ++i)
      MT_TRY((*parts)[i].assign(render, items[i]));
    return {};
  }
  if (field.empty()) {
    render.scope->set(name, value);
    return {};
  }
  const Value held = render.find(name);
  auto *space = held.is(Value::Kind::Object) ? dynamic_cast<Namespace *>(held.object) : nullptr;
  if (!space)
    return fail("{} is no namespace: its field {} cannot be set", name, field);
  return space->set(field, value);
}

Result<Flow> Data::run(Render &render) const {
  MT_TRY(render.write(text));
  return Flow::Next;
}

Result<Flow> Output::run(Render &render) const {
  MT_ASSIGN(Value value, of->evaluate(render));
  MT_TRY(writeValue(render, value));
  return Flow::Next;
}

Result<Flow> If::run(Render &render) const {
  for (const Branch &branch : branches) {
    if (branch.test) {
      MT_ASSIGN(Value value, branch.test->evaluate(render));
      if (!truthOf(value))
        continue;
    }
    return branch.body.execute(render);
  }
  return Flow::Next;
}

Result<Flow> Set::run(Render &render) const {
  MT_ASSIGN(Value assigned, value->evaluate(render));
  MT_TRY(target.assign(render, assigned));
  return Flow::Next;
}

Result<Flow> SetBlock::run(Render &render) const {
  Value value;
  MT_ASSIGN(Flow flow, runFiltered(render, body, filters, value));
  if (flow == Flow::Next)
    MT_TRY(target.assign(render, value));
  return flow;
}

Result<Flow> FilterBlock::run(Render &render) const {
  Value value;
  MT_ASSIGN(Flow flow, runFiltered(render, body, filters, value));
  if (flow == Flow::Next)
    MT_TRY(writeValue(render, value));
  return flow;
}

Result<Flow> With::run(Render &render) const {
  Scope *inner = body.newScope(render, render.scope);
  std::vector<Value> all;
  for (const auto &[target, expression] : values) { // none sees another
    MT_ASSIGN(Value value, expression->evaluate(render));
    all.push_back(value);
  }
  Within within(render, inner);
  for (size_t i = 0; i < all.size(); ++i)
    MT_TRY(values[i].first.assign(render, all[i]));
  return body.execute(render);
}

Result<Flow> MacroDefinition::run(Render &render) const {
  render.scope->set(macro.name, Value::of(macroValue(render, macro)));
  return Flow::Next;
}

Result<Flow> CallBlock::run(Render &render) const {
  Result<Value> value =
      call->callWith(render, std::pair(std::string_view("caller"), Value::of(macroValue(render, caller))));
  if (!value)
    return render.placed(value.status(), call->line);
  MT_TRY(writeValue(render, *value));
  return Flow::Next;
}

/// Its text stands where it is written, for the parser refuses it where text is captured.
Result<Flow> Generation::run(Render &render) const {
  const size_t begin = render.written();
  Within within(render, body.newScope(render, render.scope));
  MT_TRY(body.execute(render).status());
  render.generated.push_back({.begin = begin, .end = render.written()});
  return Flow::Next;
}

} // namespace mt::jinja
