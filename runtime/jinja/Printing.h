// Values as text: as Python's str and repr write them, and as JSON. Not the formatting of % and format.
#ifndef MT_RUNTIME_JINJA_PRINTING_H
#define MT_RUNTIME_JINJA_PRINTING_H

#include "runtime/jinja/Heap.h"

#include <string>

namespace mt::jinja {

/// str(value); of what is undefined, nothing. Errors: what Python would write with an address, such as a function.
Status print(Heap &heap, const Value &value, std::string &to);
/// repr(value): text is quoted.
Status printQuoted(Heap &heap, const Value &value, std::string &to);
/// The same, as a text of its own: `value` itself where it is text already.
Result<std::string_view> printed(Heap &heap, const Value &value);

struct JsonStyle {
  bool ascii = false, sorted = false;
  std::optional<std::string> indent; ///< of one level; nothing: on one line
  std::string_view between = ", ", afterKey = ": ";
};
/// json.dumps(value). Errors: what JSON has no form for.
Status printJson(Heap &heap, const Value &value, const JsonStyle &style, std::string &to);

} // namespace mt::jinja
#endif
