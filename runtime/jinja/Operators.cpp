#include "runtime/jinja/Operators.h"

#include "runtime/jinja/Formatting.h"
#include "runtime/jinja/Markup.h"
#include "runtime/jinja/Text.h"

#include <algorithm>

namespace mt::jinja {
namespace {

using Kind = Value::Kind;

/// Whether an integer is below, at or above a float, without rounding it.
std::partial_ordering compareNumbers(const Value &a, const Value &b) {
  if (a.whole() && b.whole())
    return a.integer <=> b.integer;
  const auto left = static_cast<long double>(a.whole() ? static_cast<long double>(a.integer) : a.real);
  const auto right = static_cast<long double>(b.whole() ? static_cast<long double>(b.integer) : b.real);
  return left <=> right;
}

bool isSequence(const Value &value, Sequence::Kind kind) {
  return value.is(Kind::Sequence) && value.sequence->kind == kind;
}

bool equalSequences(Heap &heap, const Sequence &a, const Sequence &b) {
  if (&a == &b)
    return true;
  if (a.kind != b.kind || !(a.indexed() || a.kind == Sequence::Kind::Keys) || a.items.size() != b.items.size())
    return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equal(heap, a.items[i], b.items[i]))
      return false;
  return true;
}

bool equalDictionaries(Heap &heap, const Dictionary &a, const Dictionary &b) {
  if (a.entries.size() != b.entries.size())
    return false;
  for (const auto &[key, value] : a.entries) {
    const Value *other = find(heap, b, key);
    if (!other || !equal(heap, value, *other))
      return false;
  }
  return true;
}

Result<std::partial_ordering> orderSequences(Heap &heap, const Sequence &a, const Sequence &b) {
  for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i)
    if (!equal(heap, a.items[i], b.items[i]))
      return ordered(heap, a.items[i], b.items[i]);
  return std::partial_ordering(a.items.size() <=> b.items.size());
}

Result<Value> repeated(Heap &heap, const Value &value, int64_t times) {
  const size_t count = times > 0 ? static_cast<size_t>(times) : 0;
  const size_t size = value.is(Kind::Text) ? value.text.size() : value.sequence->items.size() * 32;
  if (size > 0 && count > kLongestText / size)
    return fail("{} times {} is longer than what a template may make", nameOf(value), times);
  if (value.is(Kind::Text)) {
    std::string made;
    made.reserve(size * count);
    for (size_t i = 0; size > 0 && i < count; ++i)
      made += value.text;
    MT_ASSIGN(Value text, heap.text(std::move(made)));
    return marked(text, value.markup);
  }
  std::vector<Value> items;
  for (size_t i = 0; size > 0 && i < count; ++i)
    items.insert(items.end(), value.sequence->items.begin(), value.sequence->items.end());
  return heap.sequence(value.sequence->kind, std::move(items));
}

bool repeats(const Value &value) {
  return value.is(Kind::Text) || isSequence(value, Sequence::Kind::List) || isSequence(value, Sequence::Kind::Tuple);
}

Result<Value> joined(Heap &heap, Value left, Value right) {
  const bool mark = left.markup || right.markup;
  if (mark) {
    MT_ASSIGN(left, escaped(heap, left));
    MT_ASSIGN(right, escaped(heap, right));
  }
  MT_TRY(heap.fits(left.text.size() + right.text.size()));
  MT_ASSIGN(Value made, heap.text(std::string(left.text).append(right.text)));
  return marked(made, mark);
}

Result<std::optional<Value>> joinedOrRepeated(Heap &heap, Arithmetic operation, const Value &left, const Value &right) {
  if (operation == Arithmetic::Add && left.is(Kind::Text) && right.is(Kind::Text)) {
    MT_ASSIGN(Value made, joined(heap, left, right));
    return std::optional(made);
  }
  if (operation == Arithmetic::Add && left.is(Kind::Sequence) && right.is(Kind::Sequence) && repeats(left) &&
      left.sequence->kind == right.sequence->kind) {
    std::vector<Value> items = left.sequence->items;
    items.insert(items.end(), right.sequence->items.begin(), right.sequence->items.end());
    MT_ASSIGN(Value made, heap.sequence(left.sequence->kind, std::move(items)));
    return std::optional(made);
  }
  if (operation == Arithmetic::Multiply && ((repeats(left) && right.whole()) || (left.whole() && repeats(right)))) {
    MT_ASSIGN(Value made, left.whole() ? repeated(heap, right, left.integer) : repeated(heap, left, right.integer));
    return std::optional(made);
  }
  return std::optional<Value>();
}

std::string_view symbolOf(Arithmetic operation) {
  static constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSymbols[static_cast<size_t>(operation)];
}

bool hashable(const Value &value) {
  if (value.is(Kind::Dictionary))
    return false;
  if (!value.is(Kind::Sequence))
    return true;
  using Of = Sequence::Kind;
  const Sequence &sequence = *value.sequence;
  if (sequence.kind == Of::Tuple)
    return std::ranges::all_of(sequence.items, hashable);
  return sequence.kind == Of::Range || sequence.kind == Of::Iterator || sequence.kind == Of::Values;
}

/// Bounds of a slice of so many items, as CPython's PySlice_AdjustIndices.
struct Slice {
  int64_t start, stop, step;
};

Result<Slice> sliceWithin(int64_t size, const Value &start, const Value &stop, const Value &step) {
  for (const Value &one : {start, stop, step})
    if (!one.whole() && !one.is(Kind::None))
      return one.is(Kind::Undefined) ? undefinedError(one) : fail("a slice takes integers, not {}", nameOf(one));
  const int64_t by = step.whole() ? step.integer : 1;
  if (by == 0)
    return fail("a slice's step cannot be 0");
  const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
  auto bounded = [&](const Value &given, int64_t otherwise) {
    if (!given.whole())
      return otherwise;
    int64_t at = given.integer < 0 ? std::max(given.integer, -size - 1) + size : given.integer;
    return std::clamp(at, low, high);
  };
  return Slice{bounded(start, by < 0 ? high : low), bounded(stop, by < 0 ? low : high), by};
}

/// Applies `take` to the places of a slice.
template <typename Take> void eachOf(const Slice &slice, Take take) {
  for (int64_t at = slice.start; slice.step > 0 ? at < slice.stop : at > slice.stop;) {
    take(static_cast<size_t>(at));
    if (__builtin_add_overflow(at, slice.step, &at))
      return;
  }
}

Result<std::optional<Value>> characterAt(Heap &heap, const Value &value, int64_t place) {
  const std::string_view text = value.text;
  heap.spendText(text.size());
  if (place < 0)
    place += static_cast<int64_t>(codePoints(text));
  if (place < 0)
    return std::optional<Value>();
  size_t begin = byteOf(text, static_cast<size_t>(place)), end = begin;
  if (begin >= text.size())
    return std::optional<Value>();
  nextCodePoint(text, end);
  return std::optional(marked(Value::of(text.substr(begin, end - begin)), value.markup));
}

} // namespace

bool equal(Heap &heap, const Value &left, const Value &right) {
  if (!heap.spend(1))
    return false;
  if (left.number() && right.number())
    return compareNumbers(left, right) == 0;
  if (left.kind != right.kind)
    return false;
  switch (left.kind) {
  case Kind::Text:
    return left.text == right.text;
  case Kind::Sequence:
    return equalSequences(heap, *left.sequence, *right.sequence);
  case Kind::Dictionary:
    return left.dictionary == right.dictionary || equalDictionaries(heap, *left.dictionary, *right.dictionary);
  case Kind::Object:
    return left.object == right.object;
  default:
    return true;
  }
}

Result<std::partial_ordering> ordered(Heap &heap, const Value &left, const Value &right) {
  heap.spend(1);
  MT_TRY(heap.checked());
  if (left.number() && right.number())
    return compareNumbers(left, right);
  if (left.is(Kind::Text) && right.is(Kind::Text))
    return std::partial_ordering(left.text <=> right.text); // UTF-8 is in the order of code points
  if (left.is(Kind::Undefined) || right.is(Kind::Undefined))
    return undefinedError(left.is(Kind::Undefined) ? left : right);
  if (left.is(Kind::Sequence) && right.is(Kind::Sequence) && repeats(left) &&
      left.sequence->kind == right.sequence->kind)
    return orderSequences(heap, *left.sequence, *right.sequence);
  return fail("{} and {} have no order", nameOf(left), nameOf(right));
}

Result<bool> holds(Heap &heap, const Value &container, const Value &value) {
  if (container.is(Kind::Text)) {
    if (!value.is(Kind::Text))
      return value.is(Kind::Undefined) ? undefinedError(value) : fail("text cannot hold {}", nameOf(value));
    heap.spendText(container.text.size());
    return container.text.find(value.text) != std::string_view::npos;
  }
  if (container.is(Kind::Dictionary)) {
    if (!hashable(value))
      return fail("{} cannot be a key", nameOf(value));
    return find(heap, *container.dictionary, value) != nullptr;
  }
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, container));
  return std::ranges::any_of(items, [&](const Value &item) { return equal(heap, item, value); });
}

Result<Value> combined(Heap &heap, Arithmetic operation, const Value &left, const Value &right) {
  if (operation == Arithmetic::Modulo && left.is(Kind::Text))
    return formatPercent(heap, left, right);
  if (left.is(Kind::Undefined) || right.is(Kind::Undefined))
    return undefinedError(left.is(Kind::Undefined) ? left : right);
  if (left.number() && right.number())
    return calculated(operation, left, right);
  MT_ASSIGN(std::optional<Value> made, joinedOrRepeated(heap, operation, left, right));
  if (made)
    return *made;
  return fail("{} {} {} is not possible", nameOf(left), symbolOf(operation), nameOf(right));
}

Result<std::vector<Value>> itemsOf(Heap &heap, const Value &value) {
  std::vector<Value> items;
  switch (value.kind) {
  case Kind::Undefined:
    break;
  case Kind::Text:
    for (std::string_view one : characters(value.text))
      items.push_back(Value::of(one));
    break;
  case Kind::Dictionary:
    for (const auto &[key, unused] : value.dictionary->entries)
      items.push_back(key);
    break;
  case Kind::Sequence:
    if (value.sequence->kind == Sequence::Kind::Iterator && std::exchange(value.sequence->read, true))
      break;
    items = value.sequence->items;
    break;
  default:
    return fail("{} cannot be looped over", nameOf(value));
  }
  heap.spend(items.size());
  MT_TRY(heap.checked());
  return items;
}

Result<int64_t> lengthOf(const Value &value) {
  if (value.is(Kind::Text))
    return static_cast<int64_t>(codePoints(value.text));
  if (value.is(Kind::Dictionary))
    return static_cast<int64_t>(value.dictionary->entries.size());
  if (value.is(Kind::Sequence) && value.sequence->kind != Sequence::Kind::Iterator)
    return static_cast<int64_t>(value.sequence->items.size());
  if (value.is(Kind::Undefined))
    return int64_t{0};
  return fail("{} has no length", nameOf(value));
}

const Value *find(Heap &heap, const Dictionary &dictionary, const Value &key) {
  heap.spend(dictionary.entries.size() / 8);
  for (const auto &[name, value] : dictionary.entries)
    if (name.is(Kind::Text) && key.is(Kind::Text) ? name.text == key.text : equal(heap, name, key))
      return &value;
  return nullptr;
}

Status put(Heap &heap, std::vector<std::pair<Value, Value>> &entries, const Value &key, const Value &value) {
  if (!hashable(key))
    return fail("{} cannot be a key", nameOf(key));
  heap.spend(entries.size() / 8);
  MT_TRY(heap.checked());
  for (auto &[name, held] : entries)
    if (equal(heap, name, key)) {
      held = value;
      return {};
    }
  entries.emplace_back(key, value);
  return {};
}

Result<std::optional<Value>> itemOf(Heap &heap, const Value &container, const Value &key) {
  if (container.is(Kind::Dictionary)) {
    const Value *found = hashable(key) ? find(heap, *container.dictionary, key) : nullptr;
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.whole())
    return std::optional<Value>();
  if (container.is(Kind::Text))
    return characterAt(heap, container, key.integer);
  if (!container.is(Kind::Sequence) || !container.sequence->indexed())
    return std::optional<Value>();
  const auto size = static_cast<int64_t>(container.sequence->items.size());
  const int64_t place = key.integer < 0 ? key.integer + size : key.integer;
  if (place < 0 || place >= size)
    return std::optional<Value>();
  return std::optional(container.sequence->items[static_cast<size_t>(place)]);
}

Result<Value> sliceOf(Heap &heap, const Value &container, const Value &start, const Value &stop, const Value &step) {
  if (container.is(Kind::Undefined))
    return undefinedError(container);
  if (container.is(Kind::Text)) {
    heap.spendText(container.text.size() * 16);
    MT_TRY(heap.checked());
    std::vector<std::string_view> all = characters(container.text);
    MT_ASSIGN(Slice slice, sliceWithin(static_cast<int64_t>(all.size()), start, stop, step));
    std::string made;
    eachOf(slice, [&](size_t at) { made += all[at]; });
    MT_ASSIGN(Value part, heap.text(std::move(made)));
    return marked(part, container.markup);
  }
  if (!container.is(Kind::Sequence) || !container.sequence->indexed())
    return fail("{} cannot be sliced", nameOf(container));
  const std::vector<Value> &all = container.sequence->items;
  MT_ASSIGN(Slice slice, sliceWithin(static_cast<int64_t>(all.size()), start, stop, step));
  std::vector<Value> items;
  eachOf(slice, [&](size_t at) { items.push_back(all[at]); });
  if (const Sequence &whole = *container.sequence; whole.kind == Sequence::Kind::Range)
    return heap.range(whole.start + slice.start * whole.step, whole.start + slice.stop * whole.step,
                      whole.step * slice.step, std::move(items));
  return heap.sequence(container.sequence->kind, std::move(items));
}

} // namespace mt::jinja
