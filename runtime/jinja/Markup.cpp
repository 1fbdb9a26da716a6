#include "runtime/jinja/Markup.h"

#include "runtime/jinja/Operators.h"
#include "runtime/jinja/Printing.h"

namespace mt::jinja {
namespace {

/// With those arguments escaped that become part of the result.
Result<Arguments> escapedArguments(Heap &heap, std::string_view method, Arguments arguments) {
  if (method == "join" && !arguments.positional.empty()) {
    MT_ASSIGN(std::vector<Value> items, itemsOf(heap, arguments[0]));
    for (Value &item : items) {
      MT_ASSIGN(item, escaped(heap, item));
    }
    MT_ASSIGN(arguments.positional[0], heap.list(std::move(items)));
  }
  const bool second = method == "replace" || method == "ljust" || method == "rjust" || method == "center";
  if (second && arguments.positional.size() > 1) {
    MT_ASSIGN(arguments.positional[1], escaped(heap, arguments[1]));
  }
  return arguments;
}

} // namespace

std::string escapedText(std::string_view text) {
  std::string made;
  for (char c : text)
    if (c == '&' || c == '<' || c == '>')
      made += c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;";
    else if (c == '\'' || c == '"')
      made += c == '"' ? "&#34;" : "&#39;";
    else
      made += c;
  return made;
}

Result<Value> escaped(Heap &heap, const Value &value) {
  if (value.is(Value::Kind::Text) && value.markup)
    return value;
  MT_ASSIGN(std::string_view text, printed(heap, value));
  MT_ASSIGN(Value made, heap.text(escapedText(text)));
  return marked(made);
}

Result<Value> callMethod(const Native &method, Heap &heap, const Value &subject, const Arguments &arguments) {
  if (!subject.is(Value::Kind::Text) || !subject.markup)
    return callNative(method, heap, subject, arguments);
  MT_ASSIGN(Arguments given, escapedArguments(heap, method.name, arguments));
  MT_ASSIGN(Value made, callNative(method, heap, subject, given));
  if (!made.is(Value::Kind::Sequence))
    return marked(made, made.is(Value::Kind::Text));
  std::vector<Value> items = made.sequence->items;
  for (Value &item : items)
    item = marked(item);
  return heap.sequence(made.sequence->kind, std::move(items));
}

} // namespace mt::jinja
