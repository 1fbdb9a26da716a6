// How one value is written where a format has a place for it: width, precision, sign, kind. Python's two ways to format
// read it each from a syntax of its own (Formatting).
#ifndef MT_RUNTIME_JINJA_FORMATSTYLE_H
#define MT_RUNTIME_JINJA_FORMATSTYLE_H

#include "runtime/jinja/Value.h"

#include <string>

namespace mt::jinja {

constexpr int64_t kWidest = 1 << 20, kMostDigits = 400;

struct FormatStyle {
  std::string fill = " ";
  char align = 0; ///< < > ^ or =
  char sign = '-', kind = 0;
  bool alternate = false, thousands = false;
  int64_t width = 0, precision = -1;
};

/// Reads digits of a format. Errors: a number above `most`, which no text needs.
Result<int64_t> readCount(std::string_view format, size_t &at, int64_t most);

/// With what fills it up to the width; `align` where the style names none: < left, > right, ^ centre, = behind the
/// sign.
Result<std::string> padded(std::string_view sign, std::string_view body, const FormatStyle &style, char align);
/// Errors: there is no such kind.
Result<std::string> formattedNumber(const Value &value, FormatStyle style);
/// Cut to the precision.
Result<std::string> formattedText(std::string_view text, const FormatStyle &style);

} // namespace mt::jinja
#endif
