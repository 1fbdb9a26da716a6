// Filters of sequences and dictionaries. Those that are generators in Jinja give iterators, made at once.
#include "runtime/jinja/Attributes.h"
#include "runtime/jinja/Natives.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Text.h"

#include <algorithm>
#include <numeric>

namespace mt::jinja {
namespace {

Result<Value> iterator(Heap &heap, std::vector<Value> items) {
  return heap.sequence(Sequence::Kind::Iterator, std::move(items));
}

/// Text in lower case, unless case matters.
Result<Value> withoutCase(Heap &heap, const Value &value, bool caseSensitive) {
  if (caseSensitive || !value.is(Value::Kind::Text))
    return value;
  return heap.text(lower(value.text));
}

/// What an item is sorted by: of each attribute between commas, its value.
Result<std::vector<Value>> keysOf(Heap &heap, const Value &item, const Value &attribute, bool caseSensitive) {
  std::vector<Value> paths = {attribute};
  if (attribute.is(Value::Kind::Text)) {
    paths.clear();
    for (std::string_view path : split(attribute.text, ",", SIZE_MAX))
      paths.push_back(Value::of(path));
  }
  for (Value &path : paths) {
    MT_ASSIGN(Value value, attributePath(heap, item, path, Value()));
    MT_ASSIGN(path, withoutCase(heap, value, caseSensitive));
  }
  return paths;
}

/// Sorts stably by keys, as Python sorts. Errors: keys have no order.
Result<std::vector<Value>> sorted(Heap &heap, const std::vector<Value> &items,
                                  const std::vector<std::vector<Value>> &keys, bool reverse) {
  Status wrong;
  auto before = [&](size_t a, size_t b) {
    for (size_t i = 0; wrong.ok() && i < keys[a].size(); ++i)
      if (!equal(heap, keys[a][i], keys[b][i])) {
        auto order = ordered(heap, keys[a][i], keys[b][i]);
        wrong = order.status();
        return order.ok() && *order < 0;
      }
    return false;
  };
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return reverse ? before(b, a) : before(a, b); });
  MT_TRY(wrong);
  std::vector<Value> result;
  for (size_t i : order)
    result.push_back(items[i]);
  return result;
}

Result<Value> sort(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::vector<std::vector<Value>> keys;
  for (const Value &item : items) {
    MT_ASSIGN(std::vector<Value> key, keysOf(heap, item, arguments[2], truthOf(arguments[1])));
    keys.push_back(std::move(key));
  }
  MT_ASSIGN(items, sorted(heap, items, keys, truthOf(arguments[0])));
  return heap.list(std::move(items));
}

Result<Value> dictSort(Heap &heap, const Value &subject, const Arguments &arguments) {
  if (!subject.is(Value::Kind::Dictionary))
    return subject.is(Value::Kind::Undefined) ? undefinedError(subject)
                                              : fail("dictsort takes a dictionary, not {}", nameOf(subject));
  MT_ASSIGN(std::string_view by, textOr(arguments[1], "key", "by"));
  if (by != "key" && by != "value")
    return fail("dictsort sorts by 'key' or 'value', not '{}'", by);
  std::vector<Value> pairs;
  std::vector<std::vector<Value>> keys;
  for (const auto &[key, value] : subject.dictionary->entries) {
    MT_ASSIGN(Value pair, heap.sequence(Sequence::Kind::Tuple, {key, value}));
    pairs.push_back(pair);
    MT_ASSIGN(Value one, withoutCase(heap, by == "key" ? key : value, truthOf(arguments[0])));
    keys.push_back({one});
  }
  MT_ASSIGN(pairs, sorted(heap, pairs, keys, truthOf(arguments[2])));
  return heap.list(std::move(pairs));
}

Result<Value> unique(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::vector<std::pair<Value, Value>> seen;
  std::vector<Value> kept;
  for (const Value &item : items) {
    MT_ASSIGN(Value value, attributePath(heap, item, arguments[1], Value()));
    MT_ASSIGN(Value key, withoutCase(heap, value, truthOf(arguments[0])));
    const size_t before = seen.size();
    MT_TRY(put(heap, seen, key, item));
    if (seen.size() > before)
      kept.push_back(item);
  }
  return iterator(heap, std::move(kept));
}

template <bool largest> Result<Value> extreme(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::optional<Value> best, bestKey;
  for (const Value &item : items) {
    MT_ASSIGN(Value value, attributePath(heap, item, arguments[1], Value()));
    MT_ASSIGN(Value key, withoutCase(heap, value, truthOf(arguments[0])));
    if (bestKey) {
      MT_ASSIGN(std::partial_ordering order, ordered(heap, key, *bestKey));
      if (largest ? !(order > 0) : !(order < 0))
        continue;
    }
    best = item;
    bestKey = key;
  }
  return best ? *best : Value::undefined("an item of an empty sequence");
}

Result<Value> sum(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  Value total = arguments[1].missing() ? Value::of(int64_t{0}) : arguments[1];
  if (total.is(Value::Kind::Text))
    return fail("sum does not join texts; the filter join does");
  for (const Value &item : items) {
    MT_ASSIGN(Value value, attributePath(heap, item, arguments[0], Value()));
    MT_ASSIGN(total, combined(heap, Arithmetic::Add, total, value));
  }
  return total;
}

Result<Value> first(Heap &heap, const Value &subject, const Arguments &) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  return items.empty() ? Value::undefined("the first item of an empty sequence") : items.front();
}

Result<Value> last(Heap &heap, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Sequence) && subject.sequence->kind == Sequence::Kind::Iterator)
    return fail("an iterator, such as the filter map gives, has no last item; use the filter list first");
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  return items.empty() ? Value::undefined("the last item of an empty sequence") : items.back();
}

Result<Value> length(Heap &, const Value &subject, const Arguments &) {
  MT_ASSIGN(int64_t count, lengthOf(subject));
  return Value::of(count);
}

Result<Value> list(Heap &heap, const Value &subject, const Arguments &) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  return heap.list(std::move(items));
}

Result<Value> reverse(Heap &heap, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Text))
    return sliceOf(heap, subject, Value::none(), Value::none(), Value::of(int64_t{-1}));
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::ranges::reverse(items);
  if (subject.is(Value::Kind::Sequence) && subject.sequence->kind == Sequence::Kind::Iterator)
    return heap.list(std::move(items)); // what has no reversed() becomes a list
  return iterator(heap, std::move(items));
}

Result<Value> items(Heap &heap, const Value &subject, const Arguments &) {
  if (subject.is(Value::Kind::Undefined))
    return iterator(heap, {});
  if (!subject.is(Value::Kind::Dictionary))
    return fail("the filter items takes a dictionary, not {}", nameOf(subject));
  MT_ASSIGN(Value view, callNative(*findMethod(subject, "items"), heap, subject, {}));
  return iterator(heap, view.sequence->items);
}

Result<Value> join(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::string_view between, printed(heap, arguments[0]));
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::string made;
  for (size_t i = 0; i < items.size(); ++i) {
    MT_ASSIGN(Value value, attributePath(heap, items[i], arguments[1], Value()));
    made += i > 0 ? between : "";
    MT_TRY(print(heap, value, made));
    MT_TRY(heap.checked());
  }
  return heap.text(std::move(made));
}

Result<Value> batch(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  MT_ASSIGN(int64_t count, integerOr(arguments[0], 0, "the count"));
  std::vector<Value> batches, current;
  for (const Value &item : items) {
    if (static_cast<int64_t>(current.size()) == count) {
      MT_ASSIGN(Value full, heap.list(std::exchange(current, {})));
      batches.push_back(full);
    }
    current.push_back(item);
  }
  const bool fills = !arguments[1].missing() && !arguments[1].is(Value::Kind::None);
  if (fills && count > (1 << 20))
    return fail("a batch of {} items is more than a template may make", count);
  while (fills && !current.empty() && static_cast<int64_t>(current.size()) < count)
    current.push_back(arguments[1]);
  if (!current.empty()) {
    MT_ASSIGN(Value rest, heap.list(std::move(current)));
    batches.push_back(rest);
  }
  return iterator(heap, std::move(batches));
}

Result<Value> sliceInto(Heap &heap, const Value &subject, const Arguments &arguments) {
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  MT_ASSIGN(int64_t count, integerOr(arguments[0], 0, "the count"));
  if (count < 1 || count > (1 << 20))
    return fail("slice takes from 1 to {} slices, not {}", 1 << 20, count);
  const size_t slices = static_cast<size_t>(count), each = items.size() / slices, longer = items.size() % slices;
  std::vector<Value> all;
  for (size_t i = 0, at = 0; i < slices; ++i) {
    const size_t size = each + (i < longer);
    std::vector<Value> one(items.begin() + static_cast<int64_t>(at), items.begin() + static_cast<int64_t>(at + size));
    if (!arguments[1].missing() && !arguments[1].is(Value::Kind::None) && i >= longer)
      one.push_back(arguments[1]);
    MT_ASSIGN(Value slice, heap.list(std::move(one)));
    all.push_back(slice);
    at += size;
  }
  return iterator(heap, std::move(all));
}

/// A filter or test by the name in its first argument, with the other arguments.
Result<const Native *> namedBy(const Arguments &arguments, size_t at, const Native *(*find)(std::string_view),
                               Arguments &rest) {
  MT_ASSIGN(std::string_view name, textOr(arguments[at], "", "the name"));
  const Native *found = find(name);
  if (!found)
    return fail("there is no filter or test {}, or it is not supported", name);
  rest.positional.assign(arguments.positional.begin() + static_cast<int64_t>(at) + 1, arguments.positional.end());
  rest.named = arguments.named;
  return found;
}

Result<Value> mapAttribute(Heap &heap, const std::vector<Value> &items, const Arguments &arguments) {
  Value path, otherwise;
  for (const auto &[name, value] : arguments.named)
    if (name == "attribute")
      path = value;
    else if (name == "default")
      otherwise = value;
    else
      return fail("map has no argument {}", name);
  if (path.missing())
    return fail("map needs the name of a filter, or attribute=");
  std::vector<Value> made;
  for (const Value &item : items) {
    MT_ASSIGN(Value value, attributePath(heap, item, path, otherwise));
    made.push_back(value);
  }
  return iterator(heap, std::move(made));
}

Result<Value> map(Heap &heap, const Value &subject, const Arguments &arguments) {
  if (!truthOf(subject))
    return iterator(heap, {});
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  if (arguments.positional.empty())
    return mapAttribute(heap, items, arguments);
  Arguments rest;
  MT_ASSIGN(const Native *filter, namedBy(arguments, 0, findFilter, rest));
  for (Value &item : items) {
    MT_ASSIGN(item, callNative(*filter, heap, item, rest));
  }
  return iterator(heap, std::move(items));
}

/// select and reject, of items or of an attribute of theirs.
template <bool keeps, bool ofAttribute>
Result<Value> choose(Heap &heap, const Value &subject, const Arguments &arguments) {
  if (!truthOf(subject))
    return iterator(heap, {});
  constexpr size_t at = ofAttribute ? 1 : 0;
  if (arguments.positional.size() < at)
    return fail("selectattr and rejectattr need the name of an attribute");
  Arguments rest;
  const Native *test = nullptr;
  if (arguments.positional.size() > at) {
    MT_ASSIGN(test, namedBy(arguments, at, findTest, rest));
  }
  MT_ASSIGN(std::vector<Value> items, itemsOf(heap, subject));
  std::vector<Value> kept;
  for (const Value &item : items) {
    MT_ASSIGN(Value value, attributePath(heap, item, ofAttribute ? arguments[0] : Value(), Value()));
    if (test) {
      MT_ASSIGN(value, callNative(*test, heap, value, rest));
    }
    if (truthOf(value) == keeps)
      kept.push_back(item);
  }
  return iterator(heap, std::move(kept));
}

constexpr Native kFilters[] = {
    {"batch", "linecount fill_with", 1, batch},
    {"count", "", 0, length},
    {"dictsort", "case_sensitive by reverse", 0, dictSort},
    {"first", "", 0, first},
    {"items", "", 0, items},
    {"join", "d attribute", 0, join},
    {"last", "", 0, last},
    {"length", "", 0, length},
    {"list", "", 0, list},
    {"map", "*", 0, map},
    {"max", "case_sensitive attribute", 0, extreme<true>},
    {"min", "case_sensitive attribute", 0, extreme<false>},
    {"reject", "*", 0, choose<false, false>},
    {"rejectattr", "*", 0, choose<false, true>},
    {"reverse", "", 0, reverse},
    {"select", "*", 0, choose<true, false>},
    {"selectattr", "*", 0, choose<true, true>},
    {"slice", "slices fill_with", 1, sliceInto},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"sum", "attribute start", 0, sum},
    {"unique", "case_sensitive attribute", 0, unique},
};

} // namespace

std::span<const Native> sequenceFilters() { return kFilters; }

} // namespace mt::jinja
