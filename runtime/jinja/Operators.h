// Python's operators on values: equality, order, membership, arithmetic and repetition, items and slices.
#ifndef MT_RUNTIME_JINJA_OPERATORS_H
#define MT_RUNTIME_JINJA_OPERATORS_H

#include "runtime/jinja/Heap.h"
#include "runtime/jinja/Numbers.h"

#include <compare>

namespace mt::jinja {

bool equal(Heap &heap, const Value &left, const Value &right);
/// Of two numbers, texts, lists or tuples. Errors: they have no order. Numbers that are not numbers are unordered.
Result<std::partial_ordering> ordered(Heap &heap, const Value &left, const Value &right);
/// Whether `container` holds `value`: an item, a key, a part of a text.
Result<bool> holds(Heap &heap, const Value &container, const Value &value);
Result<Value> combined(Heap &heap, Arithmetic operation, const Value &left, const Value &right);

/// What a loop over it sees: items, keys, characters. Reads an iterator up. Errors: it is no sequence.
Result<std::vector<Value>> itemsOf(Heap &heap, const Value &value);
/// len(). Errors: it has none.
Result<int64_t> lengthOf(const Value &value);

/// A dictionary's value, or null.
const Value *find(Heap &heap, const Dictionary &dictionary, const Value &key);
/// Adds an entry, or replaces its value. Errors: the key is a list or a dictionary.
Status put(Heap &heap, std::vector<std::pair<Value, Value>> &entries, const Value &key, const Value &value);
/// The item at a place counted from the end if negative, or of a key; nothing where there is none.
Result<std::optional<Value>> itemOf(Heap &heap, const Value &container, const Value &key);
/// Python's container[start:stop:step]; None is left out.
Result<Value> sliceOf(Heap &heap, const Value &container, const Value &start, const Value &stop, const Value &step);

} // namespace mt::jinja
#endif
