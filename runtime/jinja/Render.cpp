#include "runtime/jinja/Render.h"

#include "runtime/base/Utf8.h"
#include "runtime/jinja/Functions.h"
#include "runtime/jinja/Syntax.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mt::jinja {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepestRun = 600; // expressions and statements within each other, through macros too

Result<Value> textFrom(const std::string &text) {
  if (!isUtf8(text))
    return fail("a text is not UTF-8");
  return Value::of(std::string_view(text));
}

Result<Value> valueFrom(Heap &heap, const Json &json, int depth) {
  if (depth > kDeepestValue)
    return fail("it nests deeper than {} levels", kDeepestValue);
  switch (json.type()) {
  case Json::value_t::null:
    return Value::none();
  case Json::value_t::boolean:
    return Value::of(json.get<bool>());
  case Json::value_t::number_unsigned:
    if (json.get<uint64_t>() > INT64_MAX)
      return fail("the integer {} has more than 64 bits with its sign: larger ones are not supported",
                  json.get<uint64_t>());
    [[fallthrough]];
  case Json::value_t::number_integer:
    return Value::of(json.get<int64_t>());
  case Json::value_t::number_float:
    return Value::of(json.get<double>());
  case Json::value_t::string:
    return textFrom(json.get_ref<const std::string &>());
  case Json::value_t::array: {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json &one : json) {
      MT_ASSIGN(Value item, valueFrom(heap, one, depth + 1));
      items.push_back(item);
    }
    return heap.list(std::move(items));
  }
  case Json::value_t::object: {
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(json.size());
    for (const auto &[name, one] : json.items()) {
      MT_ASSIGN(Value key, textFrom(name));
      MT_ASSIGN(Value value, valueFrom(heap, one, depth + 1));
      entries.emplace_back(key, value);
    }
    return heap.dictionary(std::move(entries));
  }
  default:
    return fail("it holds binary data");
  }
}

} // namespace

void Scope::set(std::string_view name, const Value &value) {
  auto found = std::ranges::find(names, name, &std::pair<std::string_view, Value>::first);
  if (found == names.end())
    names.emplace_back(name, value);
  else
    found->second = value;
}

Status Render::define(const Json &variables) {
  if (!variables.is_object())
    return fail("the variables of a template must be the fields of an object");
  for (const auto &[name, json] : variables.items()) {
    Result<Value> value = valueFrom(heap, json, 1);
    if (!value)
      return value.status().within(fmt::format("the variable {} of a template", name));
    scope->names.emplace_back(name, *value);
  }
  return {};
}

Value Render::find(std::string_view name) {
  for (const Scope *one = scope; one; one = one->around) {
    heap.spend(one->names.size() / 16);
    auto found = std::ranges::find(one->names, name, &std::pair<std::string_view, Value>::first);
    if (found != one->names.end())
      return found->second;
  }
  if (const Native *function = findFunction(name))
    return Value::of(static_cast<Object *>(heap.object<BoundMethod>(*function, Value())));
  return Value::undefined(name);
}

Scope *Render::newScope(Scope *around) {
  heap.spend(2);
  scopes.push_back({.around = around, .names = {}});
  return &scopes.back();
}

Status Render::write(std::string_view more) {
  heap.spendText(more.size());
  MT_TRY(heap.fits(out->size() + more.size()));
  out->append(more);
  return {};
}

Result<Flow> Render::capture(const Body &body, Scope *within, std::string &captured) {
  std::string *before = std::exchange(out, &captured);
  Within inner(*this, within);
  Result<Flow> flow = body.execute(*this);
  out = before;
  return flow;
}

Status Render::enter() {
  heap.spend(1);
  MT_TRY(heap.checked());
  if (depth >= kDeepestRun)
    return fail("it goes deeper than {} levels; does a macro call itself without end?", kDeepestRun);
  ++depth;
  return {};
}

Status Render::placed(const Status &status, int line) {
  if (heap.raised() || std::exchange(hasPlace, true))
    return status;
  return fail("line {}: {}", line, status.message());
}

} // namespace mt::jinja
