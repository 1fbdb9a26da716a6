// Expressions of a template, with Jinja's precedences: operators, down to their operands (ParseOperands.cpp).
#include "runtime/jinja/Parser.h"

#include <algorithm>

namespace mt::jinja {
namespace {

constexpr std::pair<std::string_view, Arithmetic> kSums[] = {{"+", Arithmetic::Add}, {"-", Arithmetic::Subtract}};
constexpr std::pair<std::string_view, Arithmetic> kProducts[] = {
    {"*", Arithmetic::Multiply}, {"/", Arithmetic::Divide}, {"//", Arithmetic::FloorDivide}, {"%", Arithmetic::Modulo}};
constexpr std::pair<std::string_view, Arithmetic> kPowers[] = {{"**", Arithmetic::Power}};
constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
    {"==", Comparison::Equal},       {"!=", Comparison::NotEqual}, {"<", Comparison::Less},
    {"<=", Comparison::LessOrEqual}, {">", Comparison::Greater},   {">=", Comparison::GreaterOrEqual}};

} // namespace

Result<ExpressionPtr> Parser::over(ExpressionPtr made, int line,
                                   std::initializer_list<const ExpressionPtr *> parts) const {
  made->line = line;
  for (const ExpressionPtr *part : parts)
    if (*part)
      made->height = std::max(made->height, (*part)->height + 1);
  if (made->height > kDeepestTree)
    return failAt(line, fmt::format("an expression nests deeper than {} levels", kDeepestTree));
  return made;
}

Result<ExpressionPtr> Parser::over(ExpressionPtr made, int line, const ArgumentList &arguments,
                                   const ExpressionPtr *of) const {
  int height = made->height;
  for (const ExpressionPtr &one : arguments.positional)
    height = std::max(height, one->height + 1);
  for (const auto &[name, one] : arguments.named)
    height = std::max(height, one->height + 1);
  made->height = height;
  return over(std::move(made), line, {of, &arguments.more, &arguments.moreNamed});
}

bool Parser::endsTuple(std::string_view endsBefore) const {
  return current().kind == Kind::OutputEnd || current().kind == Kind::BlockEnd || isOperator(")") ||
         (!endsBefore.empty() && isName(endsBefore));
}

Result<ExpressionPtr> Parser::parseTuple(bool conditions, std::string_view endsBefore, bool parenthesized) {
  const int line = current().line;
  auto tuple = onLine<ListOf>(line);
  tuple->kind = Sequence::Kind::Tuple;
  bool several = false;
  while (!endsTuple(endsBefore)) {
    MT_ASSIGN(ExpressionPtr item, conditions ? parseExpression() : parseOr());
    tuple->height = std::max(tuple->height, item->height + 1);
    tuple->items.push_back(std::move(item));
    if (!skipOperator(","))
      break;
    several = true;
  }
  if (!several && !tuple->items.empty())
    return std::move(tuple->items[0]);
  if (tuple->items.empty() && !parenthesized)
    return wrong("an expression");
  return over(std::move(tuple), line, {});
}

Result<ExpressionPtr> Parser::parseExpression() {
  Deeper deeper(*this);
  MT_TRY(deeper.checked());
  const int line = current().line;
  const size_t known = unknown.size();
  MT_ASSIGN(ExpressionPtr made, parseOr());
  while (skipName("if")) {
    auto conditional = onLine<Conditional>(line);
    conditional->then = std::move(made);
    MT_ASSIGN(conditional->test, parseOr());
    if (skipName("else")) {
      MT_ASSIGN(conditional->otherwise, parseExpression());
    }
    unknown.resize(known);
    const ExpressionPtr &a = conditional->test, &b = conditional->then, &c = conditional->otherwise;
    MT_ASSIGN(made, over(std::move(conditional), line, {&a, &b, &c}));
  }
  return made;
}

Result<ExpressionPtr> Parser::parseOr() {
  const int line = current().line;
  MT_ASSIGN(ExpressionPtr left, parseAnd());
  while (skipName("or")) {
    auto made = onLine<Logical>(line);
    made->left = std::move(left);
    MT_ASSIGN(made->right, parseAnd());
    const ExpressionPtr &a = made->left, &b = made->right;
    MT_ASSIGN(left, over(std::move(made), line, {&a, &b}));
  }
  return left;
}

Result<ExpressionPtr> Parser::parseAnd() {
  const int line = current().line;
  MT_ASSIGN(ExpressionPtr left, parseNot());
  while (skipName("and")) {
    auto made = onLine<Logical>(line);
    made->both = true;
    made->left = std::move(left);
    MT_ASSIGN(made->right, parseNot());
    const ExpressionPtr &a = made->left, &b = made->right;
    MT_ASSIGN(left, over(std::move(made), line, {&a, &b}));
  }
  return left;
}

Result<ExpressionPtr> Parser::parseNot() {
  if (!isName("not"))
    return parseCompared();
  Deeper deeper(*this);
  MT_TRY(deeper.checked());
  auto made = onLine<Not>(next().line);
  MT_ASSIGN(made->of, parseNot());
  const ExpressionPtr &of = made->of;
  const int line = made->line;
  return over(std::move(made), line, {&of});
}

Result<ExpressionPtr> Parser::parseCompared() {
  const int line = current().line;
  auto made = onLine<Compared>(line);
  MT_ASSIGN(made->first, parseSum());
  made->height = made->first->height + 1;
  while (true) {
    std::optional<Comparison> comparison;
    for (const auto &[symbol, meaning] : kComparisons)
      if (!comparison && skipOperator(symbol))
        comparison = meaning;
    if (!comparison && skipName("in"))
      comparison = Comparison::In;
    if (!comparison && isName("not") && ahead().kind == Kind::Name && ahead().text == "in") {
      at += 2;
      comparison = Comparison::NotIn;
    }
    if (!comparison)
      break;
    MT_ASSIGN(ExpressionPtr other, parseSum());
    made->height = std::max(made->height, other->height + 1);
    made->others.emplace_back(*comparison, std::move(other));
  }
  if (made->others.empty())
    return std::move(made->first);
  return over(std::move(made), line, {});
}

Result<ExpressionPtr> Parser::parseCalculation(std::span<const std::pair<std::string_view, Arithmetic>> operators,
                                               Result<ExpressionPtr> (Parser::*operand)()) {
  const int line = current().line;
  MT_ASSIGN(ExpressionPtr left, (this->*operand)());
  while (true) {
    auto found = std::ranges::find_if(operators, [&](const auto &one) { return isOperator(one.first); });
    if (found == operators.end())
      return left;
    next();
    auto made = onLine<Calculation>(line);
    made->operation = found->second;
    made->left = std::move(left);
    MT_ASSIGN(made->right, (this->*operand)());
    const ExpressionPtr &a = made->left, &b = made->right;
    MT_ASSIGN(left, over(std::move(made), line, {&a, &b}));
  }
}

Result<ExpressionPtr> Parser::parseSum() { return parseCalculation(kSums, &Parser::parseConcatenation); }
Result<ExpressionPtr> Parser::parsePower() { return parseCalculation(kPowers, &Parser::parseOperand); }
Result<ExpressionPtr> Parser::parseProduct() { return parseCalculation(kProducts, &Parser::parsePower); }

Result<ExpressionPtr> Parser::parseConcatenation() {
  const int line = current().line;
  MT_ASSIGN(ExpressionPtr first, parseProduct());
  if (!isOperator("~"))
    return first;
  auto made = onLine<Concatenation>(line);
  made->height = first->height + 1;
  made->parts.push_back(std::move(first));
  while (skipOperator("~")) {
    MT_ASSIGN(ExpressionPtr part, parseProduct());
    made->height = std::max(made->height, part->height + 1);
    made->parts.push_back(std::move(part));
  }
  return over(std::move(made), line, {});
}

Result<ExpressionPtr> Parser::parseOperand() { return parseUnary(true); }

Result<ExpressionPtr> Parser::parseUnary(bool filters) {
  Deeper deeper(*this);
  MT_TRY(deeper.checked());
  ExpressionPtr made;
  if (isOperator("-") || isOperator("+")) {
    const Token sign = next();
    auto negated = onLine<Signed>(sign.line);
    negated->negative = sign.text == "-";
    MT_ASSIGN(negated->of, parseUnary(false));
    const ExpressionPtr &of = negated->of;
    MT_ASSIGN(made, over(std::move(negated), sign.line, {&of}));
  } else {
    MT_ASSIGN(made, parsePrimary());
  }
  MT_ASSIGN(made, parsePostfix(std::move(made)));
  return filters ? parseFilters(std::move(made)) : std::move(made);
}

} // namespace mt::jinja
