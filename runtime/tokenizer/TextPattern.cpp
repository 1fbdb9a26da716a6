#include "runtime/tokenizer/TextPattern.h"

namespace mt::tokenizer {

Result<TextPattern> TextPattern::regex(std::string_view expression) {
  TextPattern pattern;
  MT_ASSIGN(pattern.expression, Regex::compile(expression));
  return pattern;
}

Result<TextPattern> TextPattern::read(const Fields &fields) {
  MT_ASSIGN(Fields either, fields.object("pattern"));
  MT_TRY(either.only({"String", "Regex"}));
  if (either.find("Regex")) {
    MT_ASSIGN(std::string_view expression, either.text("Regex"));
    Result<TextPattern> pattern = regex(expression);
    return pattern.ok() ? std::move(pattern) : pattern.status().within(either.where());
  }
  TextPattern pattern;
  MT_ASSIGN(std::string_view literal, either.text("String"));
  if (literal.empty())
    return either.fail("\"String\" is empty");
  pattern.literal = literal;
  return pattern;
}

} // namespace mt::tokenizer
