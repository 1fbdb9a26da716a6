#include "runtime/jinja/Functions.h"

#include "runtime/jinja/Markup.h"
#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"
#include "runtime/jinja/Render.h"

#include <algorithm>
#include <array>
#include <ctime>

namespace mt::jinja {
namespace {

constexpr int64_t kLongestRange = 100'000; // of Jinja's sandbox

Result<Value> range(Heap &heap, const Value &, const Arguments &arguments) {
  MT_ASSIGN(int64_t first, integerOr(arguments[0], 0, "range's argument"));
  MT_ASSIGN(int64_t second, integerOr(arguments[1], 0, "range's argument"));
  MT_ASSIGN(int64_t step, integerOr(arguments[2], 1, "range's argument"));
  const int64_t start = arguments[1].missing() ? 0 : first, stop = arguments[1].missing() ? first : second;
  if (step == 0)
    return fail("range's step cannot be 0");
  std::vector<Value> items;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<int64_t>(items.size()) == kLongestRange)
      return fail("a range has more than {} numbers", kLongestRange);
    items.push_back(Value::of(at));
    if (__builtin_add_overflow(at, step, &at))
      break;
  }
  return heap.range(start, stop, step, std::move(items));
}

/// The entries of dict(...): those of a dictionary or of pairs, then those by name.
Result<std::vector<std::pair<Value, Value>>> entriesOf(Heap &heap, const Arguments &arguments) {
  std::vector<std::pair<Value, Value>> entries;
  if (arguments.positional.size() > 1)
    return fail("a dictionary is made of one argument, not {}", arguments.positional.size());
  if (!arguments.positional.empty() && arguments[0].is(Value::Kind::Dictionary)) {
    entries = arguments[0].dictionary->entries;
  } else if (!arguments.positional.empty()) {
    MT_ASSIGN(std::vector<Value> pairs, itemsOf(heap, arguments[0]));
    for (const Value &pair : pairs) {
      MT_ASSIGN(std::vector<Value> both, itemsOf(heap, pair));
      if (both.size() != 2)
        return fail("a dictionary is made of pairs, not of {} values", both.size());
      MT_TRY(put(heap, entries, both[0], both[1]));
    }
  }
  for (const auto &[name, value] : arguments.named)
    MT_TRY(put(heap, entries, Value::of(name), value));
  return entries;
}

Result<Value> dict(Heap &heap, const Value &, const Arguments &arguments) {
  MT_ASSIGN(auto entries, entriesOf(heap, arguments));
  return heap.dictionary(std::move(entries));
}

Result<Value> makeNamespace(Heap &heap, const Value &, const Arguments &arguments) {
  MT_ASSIGN(auto entries, entriesOf(heap, arguments));
  auto *made = heap.object<Namespace>();
  for (const auto &[name, value] : entries) {
    if (!name.is(Value::Kind::Text))
      return fail("a namespace has names, not {}", nameOf(name));
    MT_TRY(made->set(name.text, value));
  }
  return Value::of(static_cast<Object *>(made));
}

class Cycler : public Object {
public:
  explicit Cycler(std::vector<Value> items) : items(std::move(items)) {}
  std::string_view name() const override { return "a cycler"; }
  std::optional<Value> attribute(Heap &heap, std::string_view name) override;
  Value take() {
    Value taken = items[place];
    place = (place + 1) % items.size();
    return taken;
  }
  void reset() { place = 0; }

private:
  std::vector<Value> items;
  size_t place = 0;
};

Result<Value> nextOf(Heap &, const Value &subject, const Arguments &) {
  return static_cast<Cycler *>(subject.object)->take();
}
Result<Value> resetOf(Heap &, const Value &subject, const Arguments &) {
  static_cast<Cycler *>(subject.object)->reset();
  return Value::none();
}
constexpr Native kNext = {"next", "", 0, nextOf}, kReset = {"reset", "", 0, resetOf};

std::optional<Value> Cycler::attribute(Heap &heap, std::string_view name) {
  if (name == "current")
    return items[place];
  if (name != "next" && name != "reset")
    return std::nullopt;
  return Value::of(static_cast<Object *>(
      heap.object<BoundMethod>(name == "next" ? kNext : kReset, Value::of(static_cast<Object *>(this)))));
}

Result<Value> makeCycler(Heap &heap, const Value &, const Arguments &arguments) {
  if (arguments.positional.empty() || !arguments.named.empty())
    return fail("cycler takes values, at least one");
  return Value::of(static_cast<Object *>(heap.object<Cycler>(arguments.positional)));
}

/// Gives nothing the first time, then what stands between.
class Joiner : public Object {
public:
  explicit Joiner(const Value &between) : between(between) {}
  std::string_view name() const override { return "a joiner"; }
  bool callable() const override { return true; }
  Result<Value> call(Render &, const Arguments &) override {
    return std::exchange(used, true) ? between : Value::of(std::string_view());
  }

private:
  Value between;
  bool used = false;
};

Result<Value> makeJoiner(Heap &heap, const Value &, const Arguments &arguments) {
  return Value::of(static_cast<Object *>(
      heap.object<Joiner>(arguments[0].missing() ? Value::of(std::string_view(", ")) : arguments[0])));
}

Result<Value> raiseException(Heap &heap, const Value &, const Arguments &arguments) {
  MT_ASSIGN(std::string_view message, printed(heap, arguments[0]));
  return heap.raise(message);
}

/// Local time, as datetime.now().strftime writes it.
Result<Value> strftimeNow(Heap &heap, const Value &, const Arguments &arguments) {
  MT_ASSIGN(std::string_view given, textOr(arguments[0], "", "the format of strftime_now"));
  if (given.empty())
    return Value::of(given);
  if (given.size() > 1000 || given.find('\0') != std::string_view::npos)
    return fail("the format of strftime_now is too long, or holds a zero byte");
  std::timespec now = {};
  std::timespec_get(&now, TIME_UTC);
  std::tm local = {};
  if (heap.moment) {
    now = {.tv_sec = static_cast<time_t>(*heap.moment), .tv_nsec = 0};
    gmtime_r(&now.tv_sec, &local);
  } else {
    localtime_r(&now.tv_sec, &local);
  }
  std::string format;
  for (size_t i = 0; i < given.size(); ++i) {
    const bool place = given[i] == '%' && i + 1 < given.size();
    if (place && given[i + 1] == 'f')
      format += fmt::format("{:06}", now.tv_nsec / 1000);
    else if (place && (given[i + 1] == 'z' || given[i + 1] == 'Z'))
      format += ""; // of a time without a zone
    else
      format += given.substr(i, place ? 2 : 1);
    i += place;
  }
  std::string made(format.size() * 64 + 64, '\0');
  made.resize(std::strftime(made.data(), made.size(), format.c_str(), &local));
  return heap.text(std::move(made));
}

constexpr Native kFunctions[] = {
    {"cycler", "*", 0, makeCycler},
    {"dict", "*", 0, dict},
    {"joiner", "sep", 0, makeJoiner},
    {"namespace", "*", 0, makeNamespace},
    {"raise_exception", "message", 1, raiseException},
    {"range", "start stop step", 1, range},
    {"strftime_now", "format", 1, strftimeNow},
};

} // namespace

const Native *findFunction(std::string_view name) {
  auto found = std::ranges::find(kFunctions, name, &Native::name);
  return found == std::end(kFunctions) ? nullptr : found;
}

Result<Value> BoundMethod::call(Render &render, const Arguments &arguments) {
  return callMethod(native, render.heap, subject, arguments);
}

std::optional<Value> Namespace::attribute(Heap &heap, std::string_view name) {
  heap.spend(fields.size() / 8);
  auto found = std::ranges::find(fields, name, &std::pair<std::string_view, Value>::first);
  return found == fields.end() ? std::nullopt : std::optional(found->second);
}

Status Namespace::set(std::string_view name, const Value &value) {
  if (name.starts_with('_'))
    return fail("a namespace's names may not begin with an underscore, as {} does", name);
  auto found = std::ranges::find(fields, name, &std::pair<std::string_view, Value>::first);
  if (found == fields.end())
    fields.emplace_back(name, value);
  else
    found->second = value;
  return {};
}

} // namespace mt::jinja
