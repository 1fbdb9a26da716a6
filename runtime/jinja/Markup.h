// Text that is marked as HTML, which the filters safe and escape give, as the package markupsafe has it: text that
// joins it is escaped, and what methods make of it is marked too. Templates of chats meet it where they use `safe`.
#ifndef MT_RUNTIME_JINJA_MARKUP_H
#define MT_RUNTIME_JINJA_MARKUP_H

#include "runtime/jinja/Natives.h"

namespace mt::jinja {

std::string escapedText(std::string_view text);
/// A text with its mark.
inline Value marked(Value text, bool mark = true) {
  text.markup = mark;
  return text;
}
/// The text itself if it is marked, else the same escaped and marked. Values that are no text are printed first.
Result<Value> escaped(Heap &heap, const Value &value);

/// Calls a method of a value; of marked text, with its arguments escaped and its result marked.
Result<Value> callMethod(const Native &method, Heap &heap, const Value &subject, const Arguments &arguments);

} // namespace mt::jinja
#endif
