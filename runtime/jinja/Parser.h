// Tokens to syntax: the whole of a template or one error. Names of filters and tests are looked up here, except within
// conditions, where Jinja looks when it gets there. Statements are ParseStatements.cpp's, expressions
// ParseExpressions.cpp's and ParseOperands.cpp's.
#ifndef MT_RUNTIME_JINJA_PARSER_H
#define MT_RUNTIME_JINJA_PARSER_H

#include "runtime/jinja/Lexer.h"
#include "runtime/jinja/Names.h"
#include "runtime/jinja/Syntax.h"

#include <set>

namespace mt::jinja {

/// Errors name the line.
Result<std::unique_ptr<const Document>> parseDocument(std::string_view source);

/// A node of the syntax, with its line.
template <typename T> std::unique_ptr<T> onLine(int line) {
  auto made = std::make_unique<T>();
  made->line = line;
  return made;
}

class Parser {
public:
  explicit Parser(std::vector<Token> tokens) : tokens(std::move(tokens)) {}

  Result<std::unique_ptr<const Document>> parse();

private:
  using Kind = Token::Kind;
  using StatementPtr = std::unique_ptr<Statement>;

  std::vector<Token> tokens;
  size_t at = 0;
  int depth = 0, loops = 0;
  bool captures = false, generates = false;     ///< within what captures text; the template marks generation
  std::vector<Status> unknown;                  ///< filters and tests that no condition excuses so far
  Names names;
  Names::Block *block = nullptr;                ///< the one that is open
  std::vector<std::set<std::string>> mentioned; ///< of the macros that are open, the names in their bodies

  const Token &current() const { return tokens[at]; }
  const Token &ahead() const { return tokens[std::min(at + 1, tokens.size() - 1)]; }
  Token next() { return tokens[at == tokens.size() - 1 ? at : at++]; }
  bool isName(std::string_view name) const { return current().kind == Kind::Name && current().text == name; }
  bool isOperator(std::string_view name) const { return current().kind == Kind::Operator && current().text == name; }
  bool skipName(std::string_view name) { return isName(name) && (next(), true); }
  bool skipOperator(std::string_view name) { return isOperator(name) && (next(), true); }
  Status expect(Kind kind, std::string_view what);
  Status expectOperator(std::string_view name);
  Result<std::string> expectName(std::string_view what);
  Status wrong(std::string_view expected) const;
  Status failAt(int line, std::string_view message) const;

  class Deeper;
  class Inner;

  // Expressions, from what binds least.
  Result<ExpressionPtr> parseTuple(bool conditions, std::string_view endsBefore, bool parenthesized);
  Result<ExpressionPtr> parseExpression();
  Result<ExpressionPtr> parseOr();
  Result<ExpressionPtr> parseAnd();
  Result<ExpressionPtr> parseNot();
  Result<ExpressionPtr> parseCompared();
  Result<ExpressionPtr> parseSum();
  Result<ExpressionPtr> parseConcatenation();
  Result<ExpressionPtr> parseProduct();
  Result<ExpressionPtr> parsePower();
  Result<ExpressionPtr> parseOperand();
  Result<ExpressionPtr> parseUnary(bool filters);
  Result<ExpressionPtr> parsePrimary();
  Result<ExpressionPtr> parseNamed();
  Result<ExpressionPtr> parseList();
  Result<ExpressionPtr> parseDictionary();
  Result<ExpressionPtr> parsePostfix(ExpressionPtr of);
  Result<ExpressionPtr> parseFilters(ExpressionPtr of);
  Result<ExpressionPtr> parseSubscript(ExpressionPtr of);
  Result<ExpressionPtr> parseItem(ExpressionPtr of, int line);
  Result<ExpressionPtr> parseCall(ExpressionPtr of);
  Result<std::unique_ptr<Applied>> parseFilter(ExpressionPtr of);
  Result<ExpressionPtr> parseTest(ExpressionPtr of);
  Status parseTestArguments(ArgumentList &arguments);
  Result<ArgumentList> parseArguments();
  Status parseArgument(ArgumentList &arguments);
  Result<ExpressionPtr> parseCalculation(std::span<const std::pair<std::string_view, Arithmetic>> operators,
                                         Result<ExpressionPtr> (Parser::*operand)());
  Result<std::string> parseDotted(std::string_view what);
  bool endsTuple(std::string_view endsBefore) const;
  /// An expression over others, one level higher. Errors: too high.
  Result<ExpressionPtr> over(ExpressionPtr made, int line, std::initializer_list<const ExpressionPtr *> parts) const;
  Result<ExpressionPtr> over(ExpressionPtr made, int line, const ArgumentList &arguments,
                             const ExpressionPtr *of) const;

  // Statements.
  Result<Body> parseBody(std::initializer_list<std::string_view> ends);
  Result<Body> parseBlock(std::initializer_list<std::string_view> ends);
  Result<StatementPtr> parseStatement();
  Result<StatementPtr> parseIf();
  Result<StatementPtr> parseFor();
  Result<StatementPtr> parseSet();
  Result<StatementPtr> parseWith();
  Result<StatementPtr> parseMacro();
  Result<StatementPtr> parseCallBlock();
  Result<StatementPtr> parseFilterBlock();
  Result<StatementPtr> parseGeneration();
  Result<StatementPtr> parsePrint();
  Result<StatementPtr> parseJump();
  Status parseParameters(MacroOf &macro);
  Status parseMacroBody(MacroOf &macro, std::string_view end);
  Result<std::vector<std::unique_ptr<Applied>>> parseFilterChain(bool started);
  void set(const Target &target);
  void parameters(const Target &target);
  Result<Target> parseTarget(bool fields);
  Result<Target> parseTargetPart(bool fields);
};

/// Counts how deep the parser itself goes.
class Parser::Deeper {
public:
  explicit Deeper(Parser &parser) : parser(parser) { ++parser.depth; }
  ~Deeper() { --parser.depth; }
  Deeper(const Deeper &) = delete;
  Deeper &operator=(const Deeper &) = delete;
  Status checked() const;

private:
  Parser &parser;
};

/// A block with variables of its own: conditions around it excuse nothing in it, and of those that are functions in
/// Jinja, no jump leaves them.
class Parser::Inner {
public:
  Inner(Parser &parser, Body *body, bool function, bool captures);
  ~Inner();
  Inner(const Inner &) = delete;
  Inner &operator=(const Inner &) = delete;
  /// The error of an unknown filter or test in it.
  Status checked() const;

private:
  Parser &parser;
  const int loops;
  const bool captures;
  const size_t known;
  Names::Block *const around;
};

} // namespace mt::jinja
#endif
