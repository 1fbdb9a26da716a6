// Python's two old ways to format: `text % values` and text.format(...). A number's form is written once, for both.
#ifndef MT_RUNTIME_JINJA_FORMATTING_H
#define MT_RUNTIME_JINJA_FORMATTING_H

#include "runtime/jinja/Heap.h"

namespace mt::jinja {

/// `format % values`: a tuple's values, those of a dictionary by name, or one value.
/// A format that is marked as HTML escapes them, and its result is marked.
Result<Value> formatPercent(Heap &heap, const Value &format, const Value &values);
/// format.format(*positional, **named), likewise.
Result<Value> formatBraces(Heap &heap, const Value &format, const Arguments &arguments);

} // namespace mt::jinja
#endif
