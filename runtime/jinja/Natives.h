// Filters, tests, methods and functions that are written in C++: each a row of a table with the names of its
// parameters, which calls are checked against as Python checks them.
#ifndef MT_RUNTIME_JINJA_NATIVES_H
#define MT_RUNTIME_JINJA_NATIVES_H

#include "runtime/jinja/Heap.h"

#include <span>
#include <string_view>

namespace mt::jinja {

struct Native {
  std::string_view name;
  /// "width fill": in this order, separated by spaces; "*" takes arguments as they come.
  std::string_view parameters;
  size_t required;
  /// `subject` is what a filter, a test or a method is of. One argument for each parameter, Missing where not given.
  Result<Value> (*body)(Heap &heap, const Value &subject, const Arguments &arguments);
};

/// Null, if there is none of this name.
const Native *findFilter(std::string_view name);
const Native *findTest(std::string_view name);
const Native *findFunction(std::string_view name);
const Native *findMethod(const Value &subject, std::string_view name);
/// Whether a sandbox of Jinja forbids this method, because it changes what it is of.
bool forbiddenMethod(const Value &subject, std::string_view name);

/// Errors: too many arguments, too few, one of another name or twice.
Result<Value> callNative(const Native &native, Heap &heap, const Value &subject, const Arguments &arguments);

/// The tables, in the files where their rows are.
std::span<const Native> textFilters();
std::span<const Native> sequenceFilters();
std::span<const Native> numberFilters();
std::span<const Native> textMethods();
std::span<const Native> sequenceMethods();
std::span<const Native> dictionaryMethods();

/// An argument of a kind, or what it is when it is not given. Errors name the parameter.
Result<int64_t> integerOr(const Value &given, int64_t otherwise, std::string_view parameter);
Result<std::string_view> textOr(const Value &given, std::string_view otherwise, std::string_view parameter);

} // namespace mt::jinja
#endif
