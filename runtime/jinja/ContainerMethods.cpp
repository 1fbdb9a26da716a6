// The methods of Python's list, tuple, range and dict that change nothing: Jinja's sandbox forbids the others.
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"

namespace mt::jinja {
namespace {

Result<Value> indexOf(Heap &heap, const Value &subject, const Arguments &arguments) {
  const std::vector<Value> &items = subject.sequence->items;
  const auto size = static_cast<int64_t>(items.size());
  MT_ASSIGN(int64_t start, integerOr(arguments[1], 0, "the start"));
  MT_ASSIGN(int64_t stop, integerOr(arguments[2], size, "the stop"));
  start = start < 0 ? std::max<int64_t>(0, start + size) : start;
  stop = std::min(size, stop < 0 ? stop + size : stop);
  for (int64_t i = start; i < stop; ++i)
    if (equal(heap, items[static_cast<size_t>(i)], arguments[0]))
      return Value::of(i);
  return fail("the item that index looks for is not in the list");
}

Result<Value> count(Heap &heap, const Value &subject, const Arguments &arguments) {
  int64_t found = 0;
  for (const Value &item : subject.sequence->items)
    found += equal(heap, item, arguments[0]);
  return Value::of(found);
}

Result<Value> copy(Heap &heap, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Dictionary))
    return heap.dictionary(subject.dictionary->entries);
  return heap.list(subject.sequence->items);
}

Result<Value> keys(Heap &heap, const Value &subject, const Arguments &) {
  std::vector<Value> items;
  for (const auto &[key, value] : subject.dictionary->entries)
    items.push_back(key);
  return heap.sequence(Sequence::Kind::Keys, std::move(items));
}

Result<Value> values(Heap &heap, const Value &subject, const Arguments &) {
  std::vector<Value> items;
  for (const auto &[key, value] : subject.dictionary->entries)
    items.push_back(value);
  return heap.sequence(Sequence::Kind::Values, std::move(items));
}

Result<Value> items(Heap &heap, const Value &subject, const Arguments &) {
  std::vector<Value> pairs;
  for (const auto &[key, value] : subject.dictionary->entries) {
    MT_ASSIGN(Value pair, heap.sequence(Sequence::Kind::Tuple, {key, value}));
    pairs.push_back(pair);
  }
  return heap.sequence(Sequence::Kind::Items, std::move(pairs));
}

Result<Value> get(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(bool there, holds(heap, subject, arguments[0]));
  if (there)
    return *find(heap, *subject.dictionary, arguments[0]);
  return arguments[1].missing() ? Value::none() : arguments[1];
}

constexpr Native kOfSequences[] = {
    {"copy", "", 0, copy},
    {"count", "value", 1, count},
    {"index", "value start stop", 1, indexOf},
};
constexpr Native kOfDictionaries[] = {
    {"copy", "", 0, copy}, {"get", "key default", 1, get}, {"items", "", 0, items},
    {"keys", "", 0, keys}, {"values", "", 0, values},
};

} // namespace

std::span<const Native> sequenceMethods() { return kOfSequences; }
std::span<const Native> dictionaryMethods() { return kOfDictionaries; }

} // namespace mt::jinja
