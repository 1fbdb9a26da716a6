// For loops, and the variable `loop` within them.
#include "runtime/jinja/Functions.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Syntax.h"

namespace mt::jinja {
namespace {

class Loop : public Object {
public:
  Loop(const For &statement, Scope *scope, std::vector<Value> items, int64_t depth)
      : items(std::move(items)), statement(statement), scope(scope), depth(depth) {}
  std::string_view name() const override { return "a loop"; }
  std::optional<std::string> written() const override {
    return fmt::format("<LoopContext {}/{}>", index + 1, items.size());
  }
  bool callable() const override { return true; }
  std::optional<Value> attribute(Heap &heap, std::string_view name) override;
  Result<Value> call(Render &render, const Arguments &arguments) override;

  /// Whether the values are others than the last time.
  bool changed(Heap &heap, const std::vector<Value> &values);

  const std::vector<Value> items;
  size_t index = 0;

private:
  const For &statement;
  Scope *scope;
  int64_t depth;
  std::optional<std::vector<Value>> last;
};

Result<Value> cycleOf(Heap &, const Value &subject, const Arguments &arguments) {
  if (arguments.positional.empty())
    return fail("loop.cycle takes values, at least one");
  return arguments[static_cast<Loop *>(subject.object)->index % arguments.positional.size()];
}
Result<Value> changedOf(Heap &heap, const Value &subject, const Arguments &arguments) {
  return Value::of(static_cast<Loop *>(subject.object)->changed(heap, arguments.positional));
}
constexpr Native kCycle = {"cycle", "*", 0, cycleOf}, kChanged = {"changed", "*", 0, changedOf};

bool Loop::changed(Heap &heap, const std::vector<Value> &values) {
  bool same = last && last->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i)
    same = equal(heap, (*last)[i], values[i]);
  last = values;
  return !same;
}

std::optional<Value> Loop::attribute(Heap &heap, std::string_view name) {
  const auto place = static_cast<int64_t>(index), length = static_cast<int64_t>(items.size());
  if (name == "index0" || name == "index")
    return Value::of(place + (name == "index"));
  if (name == "revindex0" || name == "revindex")
    return Value::of(length - place - (name == "revindex0"));
  if (name == "first")
    return Value::of(place == 0);
  if (name == "last")
    return Value::of(place + 1 == length);
  if (name == "length")
    return Value::of(length);
  if (name == "depth0" || name == "depth")
    return Value::of(depth + (name == "depth"));
  if (name == "previtem")
    return place > 0 ? items[index - 1] : Value::undefined("the item before the first");
  if (name == "nextitem")
    return place + 1 < length ? items[index + 1] : Value::undefined("the item after the last");
  if (name != "cycle" && name != "changed")
    return std::nullopt;
  return Value::of(static_cast<Object *>(
      heap.object<BoundMethod>(name == "cycle" ? kCycle : kChanged, Value::of(static_cast<Object *>(this)))));
}

/// The loop over other items, one level deeper.
class Again : public Statement {
public:
  Again(const For &statement, const Value &items, int64_t depth) : statement(statement), items(items), depth(depth) {}
  Result<Flow> run(Render &render) const override { return statement.loop(render, items, depth); }

private:
  const For &statement;
  const Value &items;
  int64_t depth;
};

Result<Value> Loop::call(Render &render, const Arguments &arguments) {
  if (!statement.recursive)
    return fail("a loop that calls itself must be marked: {{% for .. recursive %}}");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    return fail("a loop calls itself with one argument: what it loops over");
  Body body;
  auto again = std::make_unique<Again>(statement, arguments[0], depth + 1);
  again->line = statement.line;
  body.statements.push_back(std::move(again));
  std::string text;
  MT_TRY(render.capture(body, scope, text).status());
  return render.heap.text(std::move(text));
}

} // namespace

Result<Flow> For::run(Render &render) const {
  MT_ASSIGN(Value items, over->evaluate(render));
  return loop(render, items, 0);
}

Result<Flow> For::loop(Render &render, const Value &overItems, int64_t depth) const {
  Scope *around = render.scope;
  MT_ASSIGN(std::vector<Value> items, itemsOf(render.heap, overItems));
  std::vector<Value> kept;
  for (const Value &item : items) {
    if (!test)
      break;
    Within within(render, render.newScope(around));
    MT_TRY(target.assign(render, item));
    MT_ASSIGN(Value keeps, test->evaluate(render));
    if (truthOf(keeps))
      kept.push_back(item);
  }
  auto *state = render.heap.object<Loop>(*this, around, test ? std::move(kept) : std::move(items), depth);
  bool finished = false; // an iteration: Jinja runs the else where each was left by break or continue, too
  for (; state->index < state->items.size(); ++state->index) {
    Within within(render, body.newScope(render, around));
    render.scope->set("loop", Value::of(static_cast<Object *>(state)));
    MT_TRY(target.assign(render, state->items[state->index]));
    MT_ASSIGN(Flow flow, body.execute(render));
    if (flow == Flow::Break)
      break;
    finished |= flow == Flow::Next;
  }
  if (finished)
    return Flow::Next;
  Within within(render, otherwise.newScope(render, around));
  return otherwise.execute(render);
}

} // namespace mt::jinja
