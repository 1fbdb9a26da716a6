// A check of whole numbers on command lines, shared by the programs' parsers.
#ifndef MT_RUNTIME_BASE_ATLEAST_H
#define MT_RUNTIME_BASE_ATLEAST_H

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdint>

namespace mt {

/// Refused in words and not by the largest number there is; what they are stands in the help.
inline CLI::Validator atLeast(int64_t least) {
  return CLI::Validator([least](std::string &text) {
    int64_t value = 0;
    bool number = CLI::detail::lexical_cast(text, value);
    return number && value >= least ? "" : fmt::format("{} is no whole number of at least {}", text, least);
  }, "");
}

} // namespace mt
#endif
