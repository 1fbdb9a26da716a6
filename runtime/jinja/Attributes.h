// value.name and value['name'] as Jinja's sandbox looks them up: an attribute first or an item first, then the other,
// else undefined. Methods are found here and become values that can be called.
#ifndef MT_RUNTIME_JINJA_ATTRIBUTES_H
#define MT_RUNTIME_JINJA_ATTRIBUTES_H

#include "runtime/jinja/Heap.h"

namespace mt::jinja {

/// value.name. Errors: the value is undefined itself, a method that is not supported.
Result<Value> attributeOf(Heap &heap, const Value &value, std::string_view name);
/// value[key].
Result<Value> subscriptOf(Heap &heap, const Value &value, const Value &key);

/// What filters such as map and sort take as attribute: names and numbers between dots. `otherwise` stands for what is
/// undefined on the way, unless it is Missing.
Result<Value> attributePath(Heap &heap, Value value, const Value &path, const Value &otherwise);

} // namespace mt::jinja
#endif
