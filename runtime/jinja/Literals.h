// Literals within tags: numbers, and text with Python's escapes.
#ifndef MT_RUNTIME_JINJA_LITERALS_H
#define MT_RUNTIME_JINJA_LITERALS_H

#include "runtime/base/Status.h"

#include <string>
#include <string_view>

namespace mt::jinja {

/// Bytes of the integer or float that a text begins with, and whether it is a float; 0 bytes: it begins with none.
struct NumberLength {
  size_t bytes = 0;
  bool real = false;
};
NumberLength numberAt(std::string_view text, bool afterDot);

/// What stands between the quotes, with its escapes read. Errors: an escape that is not complete, or no character.
Result<std::string> unescaped(std::string_view text);

} // namespace mt::jinja
#endif
