// A template's text as tokens: data between tags, with the white space around tags dropped as trim_blocks,
// lstrip_blocks and the signs - and + in tags ask; within tags names, literals and operators. Comments and raw blocks
// end here.
#ifndef MT_RUNTIME_JINJA_LEXER_H
#define MT_RUNTIME_JINJA_LEXER_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt::jinja {

struct Token {
  enum class Kind : uint8_t {
    Data,
    OutputBegin,
    OutputEnd,
    BlockBegin,
    BlockEnd,
    Name,
    Text,
    Integer,
    Real,
    Operator,
    End
  };
  Kind kind = Kind::End;
  int line = 1;
  std::string text; ///< of data, names, operators, and of literals what they mean
  int64_t integer = 0;
  double real = 0;
};

/// Ends with a token End. Errors name the line.
Result<std::vector<Token>> tokensOf(std::string_view source);

} // namespace mt::jinja
#endif
