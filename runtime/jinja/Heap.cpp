#include "runtime/jinja/Heap.h"

#include <algorithm>

namespace mt::jinja {

int depthOf(const Value &value) {
  if (value.is(Value::Kind::Sequence))
    return value.sequence->depth;
  return value.is(Value::Kind::Dictionary) ? value.dictionary->depth : 0;
}

Status Heap::checked() const {
  if (spent > kMostWork)
    return fail("the template works too long: more than {} steps, values and pieces of text; does it loop?", kMostWork);
  return {};
}

Status Heap::raise(std::string_view message) {
  said = true;
  return Status::error(std::string(message));
}

Status Heap::fits(size_t bytes) const {
  if (bytes > kLongestText)
    return fail("a text of {} bytes is longer than the {} that a template may make", bytes, kLongestText);
  return {};
}

Result<Value> Heap::text(std::string made) {
  MT_TRY(fits(made.size()));
  spendText(made.size());
  texts.push_back(std::move(made));
  return Value::of(std::string_view(texts.back()));
}

Result<Value> Heap::sequence(Sequence::Kind kind, std::vector<Value> items) {
  spend(2 + items.size());
  int depth = 0;
  for (const Value &item : items)
    depth = std::max(depth, depthOf(item));
  if (depth >= kDeepestValue)
    return fail("a list nests deeper than {} levels", kDeepestValue);
  sequences.push_back({.kind = kind, .items = std::move(items), .depth = depth + 1});
  return Value::of(&std::as_const(sequences.back()));
}

Result<Value> Heap::dictionary(std::vector<std::pair<Value, Value>> entries) {
  spend(2 + 2 * entries.size());
  int depth = 0;
  for (const auto &[key, value] : entries)
    depth = std::max({depth, depthOf(key), depthOf(value)});
  if (depth >= kDeepestValue)
    return fail("a dictionary nests deeper than {} levels", kDeepestValue);
  dictionaries.push_back({.entries = std::move(entries), .depth = depth + 1});
  return Value::of(&std::as_const(dictionaries.back()));
}

Value Heap::range(int64_t start, int64_t stop, int64_t step, std::vector<Value> items) {
  spend(2 + items.size());
  sequences.push_back(
      {.kind = Sequence::Kind::Range, .items = std::move(items), .start = start, .stop = stop, .step = step});
  return Value::of(&std::as_const(sequences.back()));
}

} // namespace mt::jinja
