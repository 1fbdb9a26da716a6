// Statements of a template, and what parsers share.
#include "runtime/jinja/Parser.h"

#include <algorithm>

namespace mt::jinja {
namespace {

std::string shown(const Token &token) {
  switch (token.kind) {
  case Token::Kind::End:
    return "the end of the template";
  case Token::Kind::OutputBegin:
  case Token::Kind::BlockBegin:
  case Token::Kind::Data:
    return "what is outside of tags";
  case Token::Kind::OutputEnd:
  case Token::Kind::BlockEnd:
    return "the end of the tag";
  case Token::Kind::Text:
    return "a text";
  default:
    return fmt::format("'{}'", token.text);
  }
}

constexpr std::string_view kUnsupported[] = {"autoescape", "block",  "debug",   "do",        "extends",
                                             "from",       "import", "include", "pluralize", "trans"};

bool isWord(std::string_view name) {
  static constexpr std::string_view kWords[] = {"true", "false", "none", "True", "False", "None"};
  return std::ranges::find(kWords, name) != std::end(kWords);
}

} // namespace

Status Parser::failAt(int line, std::string_view message) const { return fail("line {}: {}", line, message); }

Status Parser::wrong(std::string_view expected) const {
  return failAt(current().line, fmt::format("{} must stand here, not {}", expected, shown(current())));
}

Status Parser::expect(Kind kind, std::string_view what) {
  if (current().kind != kind)
    return wrong(what);
  next();
  return {};
}

Status Parser::expectOperator(std::string_view name) {
  return skipOperator(name) ? Status() : wrong(fmt::format("'{}'", name));
}

Result<std::string> Parser::expectName(std::string_view what) {
  if (current().kind != Kind::Name)
    return wrong(what);
  return next().text;
}

Status Parser::Deeper::checked() const {
  if (parser.depth > kDeepestTree)
    return parser.failAt(parser.current().line, fmt::format("the template nests deeper than {} levels", kDeepestTree));
  return {};
}

Parser::Inner::Inner(Parser &parser, Body *body, bool function, bool captures)
    : parser(parser), loops(parser.loops), captures(parser.captures), known(parser.unknown.size()),
      around(parser.block) {
  parser.loops = function ? 0 : loops;
  parser.captures |= captures;
  parser.block = parser.names.open(body, around);
}

Parser::Inner::~Inner() {
  parser.loops = loops;
  parser.captures = captures;
  parser.block = around;
}

Status Parser::Inner::checked() const { return parser.unknown.size() > known ? parser.unknown[known] : Status(); }

Result<std::unique_ptr<const Document>> Parser::parse() {
  auto document = std::make_unique<Document>();
  block = names.open(&document->body, nullptr);
  MT_ASSIGN(document->body, parseBody({}));
  if (!unknown.empty())
    return unknown.front();
  document->generates = generates;
  names.resolve();
  return std::unique_ptr<const Document>(std::move(document));
}

/// Up to a tag with one of these names, which stays; or up to the template's end, if there are none.
Result<Body> Parser::parseBody(std::initializer_list<std::string_view> ends) {
  Deeper deeper(*this);
  MT_TRY(deeper.checked());
  Body body;
  while (current().kind != Kind::End) {
    const Token token = next();
    if (token.kind == Kind::Data) {
      auto data = onLine<Data>(token.line);
      data->text = token.text;
      body.statements.push_back(std::move(data));
    } else if (token.kind == Kind::OutputBegin) {
      auto output = onLine<Output>(token.line);
      MT_ASSIGN(output->of, parseTuple(true, "", false));
      MT_TRY(expect(Kind::OutputEnd, "'}}'"));
      body.statements.push_back(std::move(output));
    } else {
      if (std::ranges::any_of(ends, [&](std::string_view end) { return isName(end); }))
        return body;
      MT_ASSIGN(StatementPtr statement, parseStatement());
      MT_TRY(expect(Kind::BlockEnd, "'%}'"));
      body.statements.push_back(std::move(statement));
    }
  }
  if (ends.size() > 0)
    return wrong(fmt::format("{{% {} %}}", *(ends.end() - 1)));
  return body;
}

/// A body behind the end of a tag. The name of the tag that ends it is taken, if it is the only one.
Result<Body> Parser::parseBlock(std::initializer_list<std::string_view> ends) {
  skipOperator(":");
  MT_TRY(expect(Kind::BlockEnd, "'%}'"));
  MT_ASSIGN(Body body, parseBody(ends));
  if (ends.size() == 1)
    next();
  return body;
}

Result<Parser::StatementPtr> Parser::parseStatement() {
  static constexpr std::pair<std::string_view, Result<StatementPtr> (Parser::*)()> kStatements[] = {
      {"break", &Parser::parseJump},    {"call", &Parser::parseCallBlock},
      {"continue", &Parser::parseJump}, {"filter", &Parser::parseFilterBlock},
      {"for", &Parser::parseFor},       {"generation", &Parser::parseGeneration},
      {"if", &Parser::parseIf},         {"macro", &Parser::parseMacro},
      {"print", &Parser::parsePrint},   {"set", &Parser::parseSet},
      {"with", &Parser::parseWith},
  };
  if (current().kind != Kind::Name)
    return wrong("the name of a tag");
  for (const auto &[name, parse] : kStatements)
    if (isName(name))
      return (this->*parse)();
  if (std::ranges::find(kUnsupported, current().text) != std::end(kUnsupported))
    return failAt(current().line, fmt::format("the tag {{% {} %}} is not supported", current().text));
  return failAt(current().line,
                fmt::format("there is no tag {{% {} %}}, or none is open that it ends", current().text));
}

Result<Parser::StatementPtr> Parser::parseIf() {
  auto made = onLine<If>(current().line);
  const size_t known = unknown.size();
  const std::set<std::string> given = block->given;
  for (bool more = true; more;) {
    const bool tests = next().text != "else";
    If::Branch branch;
    if (tests) {
      MT_ASSIGN(branch.test, parseTuple(false, "", false));
      MT_ASSIGN(branch.body, parseBlock({"elif", "else", "endif"}));
    } else {
      MT_ASSIGN(branch.body, parseBlock({"endif"}));
    }
    made->branches.push_back(std::move(branch));
    more = tests && !isName("endif");
    if (tests && !more)
      next();
  }
  unknown.resize(known);
  Names::leaveIf(*block, given);
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseFor() {
  auto made = onLine<For>(next().line);
  MT_ASSIGN(made->target, parseTarget(false));
  if (!skipName("in"))
    return wrong("'in'");
  MT_ASSIGN(made->over, parseTuple(false, "recursive", false));
  if (skipName("if")) {
    Inner inner(*this, nullptr, false, false);
    parameters(made->target);
    MT_ASSIGN(made->test, parseExpression());
    MT_TRY(inner.checked());
  }
  made->recursive = skipName("recursive");
  {
    Inner inner(*this, &made->body, made->recursive, made->recursive);
    parameters(made->target);
    ++loops;
    MT_ASSIGN(made->body, parseBlock({"endfor", "else"}));
    MT_TRY(inner.checked());
  }
  if (next().text == "else") {
    Inner inner(*this, &made->otherwise, made->recursive, made->recursive);
    MT_ASSIGN(made->otherwise, parseBlock({"endfor"}));
    MT_TRY(inner.checked());
  }
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseSet() {
  const int line = next().line;
  MT_ASSIGN(Target target, parseTarget(true));
  if (skipOperator("=")) {
    auto made = onLine<Set>(line);
    made->target = std::move(target);
    MT_ASSIGN(made->value, parseTuple(true, "", false));
    set(made->target);
    return StatementPtr(std::move(made));
  }
  auto made = onLine<SetBlock>(line);
  made->target = std::move(target);
  set(made->target);
  MT_ASSIGN(made->filters, parseFilterChain(false));
  Inner inner(*this, &made->body, false, true);
  MT_ASSIGN(made->body, parseBlock({"endset"}));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseWith() {
  auto made = onLine<With>(next().line);
  while (current().kind != Kind::BlockEnd) {
    if (!made->values.empty())
      MT_TRY(expectOperator(","));
    MT_ASSIGN(Target target, parseTarget(false));
    MT_TRY(expectOperator("="));
    MT_ASSIGN(ExpressionPtr value, parseExpression());
    made->values.emplace_back(std::move(target), std::move(value));
  }
  Inner inner(*this, &made->body, false, false);
  for (const auto &[target, value] : made->values)
    parameters(target);
  MT_ASSIGN(made->body, parseBlock({"endwith"}));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseMacro() {
  auto made = onLine<MacroDefinition>(next().line);
  MT_ASSIGN(made->macro.name, expectName("the name of a macro"));
  if (isWord(made->macro.name))
    return failAt(made->line, fmt::format("a macro cannot have the name {}", made->macro.name));
  Names::set(*block, made->macro.name);
  Inner inner(*this, &made->macro.body, true, true);
  MT_TRY(parseParameters(made->macro));
  MT_TRY(parseMacroBody(made->macro, "endmacro"));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Status Parser::parseParameters(MacroOf &macro) {
  MT_TRY(expectOperator("("));
  while (!isOperator(")")) {
    if (!macro.parameters.empty())
      MT_TRY(expectOperator(","));
    const int line = current().line;
    MT_ASSIGN(std::string name, expectName("the name of a parameter"));
    if (isWord(name) || std::ranges::any_of(macro.parameters, [&](const auto &one) { return one.first == name; }))
      return failAt(line, fmt::format("a parameter cannot have the name {}", name));
    ExpressionPtr otherwise;
    if (skipOperator("=")) {
      MT_ASSIGN(otherwise, parseExpression());
    } else if (!macro.parameters.empty() && macro.parameters.back().second) {
      return failAt(line, "a parameter without a default stands behind one with");
    }
    Names::parameter(*block, name);
    macro.parameters.emplace_back(std::move(name), std::move(otherwise));
  }
  next();
  return {};
}

Status Parser::parseMacroBody(MacroOf &macro, std::string_view end) {
  mentioned.emplace_back();
  Result<Body> body = parseBlock({end});
  const std::set<std::string> names = std::move(mentioned.back());
  mentioned.pop_back();
  MT_TRY(body.status());
  macro.body = std::move(*body);
  auto isParameter = [&](std::string_view name) {
    return std::ranges::any_of(macro.parameters, [&](const auto &one) { return one.first == name; });
  };
  macro.takesMore = names.contains("varargs") && !isParameter("varargs");
  macro.takesNamed = names.contains("kwargs") && !isParameter("kwargs");
  macro.takesCaller = names.contains("caller") && !isParameter("caller");
  return {};
}

Result<Parser::StatementPtr> Parser::parseCallBlock() {
  auto made = onLine<CallBlock>(next().line);
  Inner inner(*this, &made->caller.body, true, true);
  if (isOperator("("))
    MT_TRY(parseParameters(made->caller));
  Names::Block *body = std::exchange(block, block->around);
  MT_ASSIGN(ExpressionPtr called, parseExpression());
  block = body;
  if (!dynamic_cast<Call *>(called.get()))
    return failAt(made->line, "{% call %} needs a call of a macro");
  made->call.reset(static_cast<Call *>(called.release()));
  MT_TRY(parseMacroBody(made->caller, "endcall"));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseFilterBlock() {
  auto made = onLine<FilterBlock>(next().line);
  MT_ASSIGN(made->filters, parseFilterChain(true));
  Inner inner(*this, &made->body, false, true);
  MT_ASSIGN(made->body, parseBlock({"endfilter"}));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Result<std::vector<std::unique_ptr<Applied>>> Parser::parseFilterChain(bool started) {
  std::vector<std::unique_ptr<Applied>> filters;
  while (std::exchange(started, false) || skipOperator("|")) {
    MT_ASSIGN(std::unique_ptr<Applied> filter, parseFilter(nullptr));
    filters.push_back(std::move(filter));
  }
  return filters;
}

Result<Parser::StatementPtr> Parser::parseGeneration() {
  auto made = onLine<Generation>(next().line);
  if (captures)
    return failAt(made->line, "{% generation %} within a macro, a call, set or filter block, a recursive loop or "
                              "another of its kind is not supported: "
                              "where its text ends up is not known");
  generates = true;
  Inner inner(*this, &made->body, true, true);
  MT_ASSIGN(made->body, parseBlock({"endgeneration"}));
  MT_TRY(inner.checked());
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parsePrint() {
  auto made = onLine<Output>(next().line);
  auto parts = onLine<Concatenation>(made->line);
  while (current().kind != Kind::BlockEnd) {
    if (!parts->parts.empty())
      MT_TRY(expectOperator(","));
    MT_ASSIGN(ExpressionPtr part, parseExpression());
    parts->height = std::max(parts->height, part->height + 1);
    parts->parts.push_back(std::move(part));
  }
  made->of = std::move(parts);
  return StatementPtr(std::move(made));
}

Result<Parser::StatementPtr> Parser::parseJump() {
  const Token token = next();
  if (loops == 0)
    return failAt(token.line, fmt::format("{{% {} %}} stands outside of a loop", token.text));
  auto made = onLine<Jump>(token.line);
  made->flow = token.text == "break" ? Flow::Break : Flow::Continue;
  return StatementPtr(std::move(made));
}

void Parser::set(const Target &target) {
  if (target.parts)
    std::ranges::for_each(*target.parts, [&](const Target &part) { set(part); });
  else if (target.field.empty())
    Names::set(*block, target.name);
  else
    Names::read(*block, target.name);
}

void Parser::parameters(const Target &target) {
  if (target.parts)
    std::ranges::for_each(*target.parts, [&](const Target &part) { parameters(part); });
  else
    Names::parameter(*block, target.name);
}

Result<Target> Parser::parseTarget(bool fields) {
  MT_ASSIGN(Target first, parseTargetPart(fields));
  if (!isOperator(","))
    return first;
  Target tuple;
  tuple.parts.emplace().push_back(std::move(first));
  while (skipOperator(",")) {
    if (isName("in") || isOperator("=") || isOperator(")") || current().kind == Kind::BlockEnd)
      break;
    MT_ASSIGN(Target part, parseTargetPart(fields));
    tuple.parts->push_back(std::move(part));
  }
  return tuple;
}

Result<Target> Parser::parseTargetPart(bool fields) {
  Deeper deeper(*this);
  MT_TRY(deeper.checked());
  if (skipOperator("(")) {
    MT_ASSIGN(Target target, parseTarget(false));
    MT_TRY(expectOperator(")"));
    return target;
  }
  const int line = current().line;
  Target target;
  MT_ASSIGN(target.name, expectName("a name to assign to"));
  if (isWord(target.name))
    return failAt(line, fmt::format("{} cannot be assigned to", target.name));
  if (fields && skipOperator(".")) {
    MT_ASSIGN(target.field, expectName("the name of a namespace's field"));
  }
  return target;
}

Result<std::unique_ptr<const Document>> parseDocument(std::string_view source) {
  MT_ASSIGN(std::vector<Token> tokens, tokensOf(source));
  return Parser(std::move(tokens)).parse();
}

} // namespace mt::jinja
