// A parsed template: expressions that give values and statements that write text. Made by Parser, run against the state
// of a Render; the same tree may be run by several threads. Nothing here is bound to one render.
#ifndef MT_RUNTIME_JINJA_SYNTAX_H
#define MT_RUNTIME_JINJA_SYNTAX_H

#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Numbers.h"
#include "runtime/jinja/Render.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mt::jinja {

/// Levels that a tree may have: what walks it needs as much stack.
constexpr int kDeepestTree = 150;

class Expression {
public:
  virtual ~Expression() = default;
  /// Errors carry the line.
  Result<Value> evaluate(Render &render) const;

  int line = 0;
  int height = 1; ///< levels of the tree below, this one too

protected:
  virtual Result<Value> compute(Render &render) const = 0;
};
using ExpressionPtr = std::unique_ptr<Expression>;

/// What a statement did to the loop around it.
enum class Flow { Next, Break, Continue };

class Statement {
public:
  virtual ~Statement() = default;
  Result<Flow> execute(Render &render) const;

  int line = 0;

protected:
  virtual Result<Flow> run(Render &render) const = 0;
};

struct Body {
  std::vector<std::unique_ptr<Statement>> statements;
  std::vector<std::string> hidden; ///< names that are undefined in its scope until it sets them (Names)
  Result<Flow> execute(Render &render) const;
  /// The scope that it runs in.
  Scope *newScope(Render &render, Scope *around) const;
};

/// What is assigned to: a name, a field of a namespace, or a tuple of targets.
struct Target {
  std::string name, field;
  std::optional<std::vector<Target>> parts;
  Status assign(Render &render, const Value &value) const;
};

struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more, moreNamed; ///< *more, **moreNamed
  Result<Arguments> evaluate(Render &render) const;
};

struct Constant : Expression {
  Value value;
  std::string text; ///< of a text, what the value points to
  Result<Value> compute(Render &) const override { return value; }
};

struct Name : Expression {
  std::string name;
  Result<Value> compute(Render &render) const override;
};

struct ListOf : Expression {
  Sequence::Kind kind = Sequence::Kind::List;
  std::vector<ExpressionPtr> items;
  Result<Value> compute(Render &render) const override;
};

struct DictionaryOf : Expression {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  Result<Value> compute(Render &render) const override;
};

struct Attribute : Expression {
  ExpressionPtr of;
  std::string name;
  Result<Value> compute(Render &render) const override;
};

struct Item : Expression {
  ExpressionPtr of, key;
  Result<Value> compute(Render &render) const override;
};

struct SliceOf : Expression {
  ExpressionPtr of, start, stop, step; ///< those left out are null
  Result<Value> compute(Render &render) const override;
};

struct Call : Expression {
  ExpressionPtr callee;
  ArgumentList arguments;
  /// With what a call block adds.
  Result<Value> callWith(Render &render, std::optional<std::pair<std::string_view, Value>> more) const;
  Result<Value> compute(Render &render) const override { return callWith(render, std::nullopt); }
};

/// A filter or a test.
struct Applied : Expression {
  ExpressionPtr of; ///< null: what a block wrote
  std::string name;
  const Native *native = nullptr; ///< null: not known, which is an error where it is reached
  ArgumentList arguments;
  Result<Value> apply(Render &render, const Value &value) const;
  Result<Value> compute(Render &render) const override;
};

struct Not : Expression {
  ExpressionPtr of;
  Result<Value> compute(Render &render) const override;
};

struct Signed : Expression {
  bool negative = false;
  ExpressionPtr of;
  Result<Value> compute(Render &render) const override;
};

struct Calculation : Expression {
  Arithmetic operation = Arithmetic::Add;
  ExpressionPtr left, right;
  Result<Value> compute(Render &render) const override;
};

struct Concatenation : Expression {
  std::vector<ExpressionPtr> parts;
  Result<Value> compute(Render &render) const override;
};

enum class Comparison { Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual, In, NotIn };

struct Compared : Expression {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> others;
  Result<Value> compute(Render &render) const override;
};

struct Logical : Expression {
  bool both = false; ///< and; else or
  ExpressionPtr left, right;
  Result<Value> compute(Render &render) const override;
};

struct Conditional : Expression {
  ExpressionPtr test, then, otherwise; ///< `otherwise` may be null
  Result<Value> compute(Render &render) const override;
};

struct Data : Statement {
  std::string text;
  Result<Flow> run(Render &render) const override;
};

struct Output : Statement {
  ExpressionPtr of;
  Result<Flow> run(Render &render) const override;
};

struct If : Statement {
  struct Branch {
    ExpressionPtr test; ///< null: else
    Body body;
  };
  std::vector<Branch> branches;
  Result<Flow> run(Render &render) const override;
};

struct For : Statement {
  Target target;
  ExpressionPtr over, test; ///< `test` may be null
  bool recursive = false;
  Body body, otherwise;
  Result<Flow> run(Render &render) const override;
  /// The loop over some items, in the innermost scope.
  Result<Flow> loop(Render &render, const Value &items, int64_t depth) const;
};

struct Set : Statement {
  Target target;
  ExpressionPtr value;
  Result<Flow> run(Render &render) const override;
};

struct SetBlock : Statement {
  Target target;
  std::vector<std::unique_ptr<Applied>> filters;
  Body body;
  Result<Flow> run(Render &render) const override;
};

struct FilterBlock : Statement {
  std::vector<std::unique_ptr<Applied>> filters;
  Body body;
  Result<Flow> run(Render &render) const override;
};

struct With : Statement {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Body body;
  Result<Flow> run(Render &render) const override;
};

/// What a macro and the body of a call block have: parameters and a body.
struct MacroOf {
  std::string name;                                                ///< none of a call block's
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;   ///< with their defaults, or null
  bool takesMore = false, takesNamed = false, takesCaller = false; ///< the body names varargs, kwargs, caller
  Body body;
};

struct MacroDefinition : Statement {
  MacroOf macro;
  Result<Flow> run(Render &render) const override;
};

struct CallBlock : Statement {
  MacroOf caller;
  std::unique_ptr<Call> call;
  Result<Flow> run(Render &render) const override;
};

struct Generation : Statement {
  Body body;
  Result<Flow> run(Render &render) const override;
};

struct Jump : Statement {
  Flow flow = Flow::Next;
  Result<Flow> run(Render &) const override { return flow; }
};

/// A whole template.
struct Document {
  Body body;
  bool generates = false;
};

} // namespace mt::jinja
#endif
