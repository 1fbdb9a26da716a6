// Checks of numbers on command lines, shared by the programs' parsers: refused in words and not by the largest number
// there is. What the numbers are stands in the help.
#ifndef MT_RUNTIME_BASE_NUMBERCHECKS_H
#define MT_RUNTIME_BASE_NUMBERCHECKS_H

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

namespace mt {

/// Whether a text that begins with a whole number has one that a type cannot hold.
template <typename Whole> bool overflows(const std::string &text) {
  Whole value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc::result_out_of_range;
}

inline CLI::Validator atLeast(int64_t least) {
  return CLI::Validator(
      [least](std::string &text) {
        int64_t value = 0;
        bool number = CLI::detail::lexical_cast(text, value) && !overflows<int64_t>(text);
        return number && value >= least ? "" : fmt::format("{} is no whole number of at least {}", text, least);
      },
      "");
}

/// Of 64 bits, as seeds are.
inline CLI::Validator unsignedNumber() {
  return CLI::Validator(
      [](std::string &text) {
        uint64_t value = 0;
        bool number = CLI::detail::lexical_cast(text, value) && !text.starts_with('-') && !overflows<uint64_t>(text);
        return number ? "" : fmt::format("{} is no whole number from 0 to 2^64 - 1", text);
      },
      "");
}

/// A finite number for which `fits`; `what` it must be, for the message: "at least 0".
inline CLI::Validator realNumber(std::function<bool(double)> fits, std::string what) {
  return CLI::Validator(
      [fits = std::move(fits), what = std::move(what)](std::string &text) {
        double value = 0;
        bool number = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && fits(value);
        return number ? "" : fmt::format("{} is no number {}", text.empty() ? "''" : text, what);
      },
      "");
}

} // namespace mt
#endif
