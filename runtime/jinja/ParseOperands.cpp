// Operands of expressions: names, literals, containers, and what may follow them: items, calls, filters, tests.
#include "runtime/jinja/Parser.h"

#include <algorithm>
#include <array>

namespace mt::jinja {
namespace {

ExpressionPtr constant(int line, const Value &value) {
  auto made = onLine<Constant>(line);
  made->value = value;
  return made;
}

ExpressionPtr textConstant(int line, std::string text) {
  auto made = onLine<Constant>(line);
  made->text = std::move(text);
  made->value = Value::of(std::string_view(made->text));
  return made;
}

std::optional<Value> wordConstant(std::string_view word) {
  if (word == "true" || word == "True" || word == "false" || word == "False")
    return Value::of(word == "true" || word == "True");
  return word == "none" || word == "None" ? std::optional(Value::none()) : std::nullopt;
}

} // namespace

Result<ExpressionPtr> Parser::parsePrimary() {
  const int line = current().line;
  switch (current().kind) {
  case Kind::Name:
    return parseNamed();
  case Kind::Text: {
    std::string text;
    while (current().kind == Kind::Text)
      text += next().text;
    return textConstant(line, std::move(text));
  }
  case Kind::Integer:
    return constant(line, Value::of(next().integer));
  case Kind::Real:
    return constant(line, Value::of(next().real));
  default:
    break;
  }
  if (skipOperator("(")) {
    MT_ASSIGN(ExpressionPtr made, parseTuple(true, "", true));
    MT_TRY(expectOperator(")"));
    return made;
  }
  if (isOperator("["))
    return parseList();
  return isOperator("{") ? parseDictionary() : Result<ExpressionPtr>(wrong("an expression"));
}

Result<ExpressionPtr> Parser::parseNamed() {
  const Token token = next();
  if (std::optional<Value> word = wordConstant(token.text))
    return constant(token.line, *word);
  auto made = onLine<Name>(token.line);
  made->name = token.text;
  Names::read(*block, token.text);
  for (std::set<std::string> &all : mentioned)
    all.insert(token.text);
  return ExpressionPtr(std::move(made));
}

Result<ExpressionPtr> Parser::parseList() {
  const int line = next().line;
  auto made = onLine<ListOf>(line);
  while (!isOperator("]")) {
    if (!made->items.empty())
      MT_TRY(expectOperator(","));
    if (isOperator("]"))
      break;
    MT_ASSIGN(ExpressionPtr item, parseExpression());
    made->height = std::max(made->height, item->height + 1);
    made->items.push_back(std::move(item));
  }
  next();
  return over(std::move(made), line, {});
}

Result<ExpressionPtr> Parser::parseDictionary() {
  const int line = next().line;
  auto made = onLine<DictionaryOf>(line);
  while (!isOperator("}")) {
    if (!made->entries.empty())
      MT_TRY(expectOperator(","));
    if (isOperator("}"))
      break;
    MT_ASSIGN(ExpressionPtr key, parseExpression());
    MT_TRY(expectOperator(":"));
    MT_ASSIGN(ExpressionPtr value, parseExpression());
    made->height = std::max({made->height, key->height + 1, value->height + 1});
    made->entries.emplace_back(std::move(key), std::move(value));
  }
  next();
  return over(std::move(made), line, {});
}

Result<ExpressionPtr> Parser::parsePostfix(ExpressionPtr of) {
  while (isOperator(".") || isOperator("[") || isOperator("(")) {
    MT_ASSIGN(of, isOperator("(") ? parseCall(std::move(of)) : parseSubscript(std::move(of)));
  }
  return of;
}

Result<ExpressionPtr> Parser::parseFilters(ExpressionPtr of) {
  while (true) {
    if (skipOperator("|")) {
      MT_ASSIGN(of, parseFilter(std::move(of)));
    } else if (isName("is")) {
      MT_ASSIGN(of, parseTest(std::move(of)));
    } else if (isOperator("(")) {
      MT_ASSIGN(of, parseCall(std::move(of)));
    } else {
      return of;
    }
  }
}

Result<ExpressionPtr> Parser::parseSubscript(ExpressionPtr of) {
  const Token token = next();
  if (token.text == "[")
    return parseItem(std::move(of), token.line);
  const Token name = next();
  if (name.kind == Kind::Integer) {
    auto made = onLine<Item>(token.line);
    made->of = std::move(of);
    made->key = constant(name.line, Value::of(name.integer));
    const ExpressionPtr &part = made->of;
    return over(std::move(made), token.line, {&part});
  }
  if (name.kind != Kind::Name)
    return failAt(name.line, "a name or a number must stand after '.'");
  auto made = onLine<Attribute>(token.line);
  made->of = std::move(of);
  made->name = name.text;
  const ExpressionPtr &part = made->of;
  return over(std::move(made), token.line, {&part});
}

/// [key], or [start:stop:step].
Result<ExpressionPtr> Parser::parseItem(ExpressionPtr of, int line) {
  std::array<ExpressionPtr, 3> parts;
  size_t colons = 0;
  if (!isOperator(":")) {
    MT_ASSIGN(parts[0], parseTuple(true, "", false));
  }
  for (; colons < 2 && skipOperator(":"); ++colons)
    if (!isOperator(":") && !isOperator("]")) {
      MT_ASSIGN(parts[colons + 1], parseExpression());
    }
  MT_TRY(expectOperator("]"));
  if (colons == 0) {
    auto made = onLine<Item>(line);
    made->of = std::move(of);
    made->key = std::move(parts[0]);
    const ExpressionPtr &a = made->of, &b = made->key;
    return over(std::move(made), line, {&a, &b});
  }
  auto made = onLine<SliceOf>(line);
  made->of = std::move(of);
  made->start = std::move(parts[0]);
  made->stop = std::move(parts[1]);
  made->step = std::move(parts[2]);
  const ExpressionPtr &a = made->of, &b = made->start, &c = made->stop, &d = made->step;
  return over(std::move(made), line, {&a, &b, &c, &d});
}

Result<ExpressionPtr> Parser::parseCall(ExpressionPtr of) {
  auto made = onLine<Call>(current().line);
  made->callee = std::move(of);
  MT_ASSIGN(made->arguments, parseArguments());
  const ArgumentList &arguments = made->arguments;
  const ExpressionPtr &callee = made->callee;
  const int line = made->line;
  return over(std::move(made), line, arguments, &callee);
}

Result<ArgumentList> Parser::parseArguments() {
  MT_TRY(expectOperator("("));
  ArgumentList arguments;
  for (bool first = true; !isOperator(")"); first = false) {
    if (!first)
      MT_TRY(expectOperator(","));
    if (isOperator(")"))
      break;
    MT_TRY(parseArgument(arguments));
  }
  next();
  return arguments;
}

Status Parser::parseArgument(ArgumentList &arguments) {
  const int line = current().line;
  const Status misplaced =
      failAt(line, "an argument stands where it may not: first those in order, then those by name, then * and **");
  if (isOperator("*") || isOperator("**")) {
    const bool named = next().text == "**";
    if (arguments.moreNamed || (!named && arguments.more))
      return misplaced;
    MT_ASSIGN((named ? arguments.moreNamed : arguments.more), parseExpression());
    return {};
  }
  if (current().kind == Kind::Name && ahead().kind == Kind::Operator && ahead().text == "=") {
    if (arguments.moreNamed)
      return misplaced;
    std::string name = next().text;
    next();
    for (const auto &[given, unused] : arguments.named)
      if (given == name)
        return failAt(line, fmt::format("the argument {} is given twice", name));
    MT_ASSIGN(ExpressionPtr value, parseExpression());
    arguments.named.emplace_back(std::move(name), std::move(value));
    return {};
  }
  if (arguments.more || arguments.moreNamed || !arguments.named.empty())
    return misplaced;
  MT_ASSIGN(ExpressionPtr value, parseExpression());
  arguments.positional.push_back(std::move(value));
  return {};
}

Result<std::string> Parser::parseDotted(std::string_view what) {
  MT_ASSIGN(std::string name, expectName(what));
  while (skipOperator(".")) {
    MT_ASSIGN(std::string part, expectName(what));
    name += "." + part;
  }
  return name;
}

Result<std::unique_ptr<Applied>> Parser::parseFilter(ExpressionPtr of) {
  auto made = onLine<Applied>(current().line);
  made->of = std::move(of);
  MT_ASSIGN(made->name, parseDotted("the name of a filter"));
  made->native = findFilter(made->name);
  if (!made->native)
    unknown.push_back(failAt(made->line, fmt::format("there is no filter {}, or it is not supported", made->name)));
  if (isOperator("(")) {
    MT_ASSIGN(made->arguments, parseArguments());
  }
  MT_ASSIGN(ExpressionPtr measured, over(std::make_unique<Constant>(), made->line, made->arguments, &made->of));
  made->height = measured->height;
  return made;
}

Result<ExpressionPtr> Parser::parseTest(ExpressionPtr of) {
  const int line = next().line;
  const bool negated = skipName("not");
  auto made = onLine<Applied>(line);
  made->of = std::move(of);
  MT_ASSIGN(made->name, parseDotted("the name of a test"));
  made->native = findTest(made->name);
  if (!made->native)
    unknown.push_back(failAt(line, fmt::format("there is no test {}, or it is not supported", made->name)));
  MT_TRY(parseTestArguments(made->arguments));
  const ArgumentList &arguments = made->arguments;
  const ExpressionPtr &tested = made->of;
  MT_ASSIGN(ExpressionPtr test, over(std::move(made), line, arguments, &tested));
  if (!negated)
    return test;
  auto opposite = onLine<Not>(line);
  opposite->of = std::move(test);
  const ExpressionPtr &part = opposite->of;
  return over(std::move(opposite), line, {&part});
}

/// In brackets, or one without them.
Status Parser::parseTestArguments(ArgumentList &arguments) {
  if (isOperator("(")) {
    MT_ASSIGN(arguments, parseArguments());
    return {};
  }
  const Kind kind = current().kind;
  const bool begins = kind == Kind::Name || kind == Kind::Text || kind == Kind::Integer || kind == Kind::Real ||
                      isOperator("[") || isOperator("{");
  if (!begins || isName("else") || isName("or") || isName("and"))
    return {};
  if (isName("is"))
    return failAt(current().line, "a test cannot follow a test; use 'and'");
  MT_ASSIGN(ExpressionPtr one, parsePrimary());
  MT_ASSIGN(one, parsePostfix(std::move(one)));
  arguments.positional.push_back(std::move(one));
  return {};
}

} // namespace mt::jinja
