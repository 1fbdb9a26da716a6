// JSON out of files that others wrote: parsed with a bound on how deep it nests, so that nothing that walks it later
// can run out of stack. Not a schema: what the values must be is the caller's matter.
#ifndef MT_RUNTIME_BASE_JSON_H
#define MT_RUNTIME_BASE_JSON_H

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <string_view>

namespace mt {

/// Levels of lists and objects that a text may nest.
constexpr int kDeepestJson = 64;

/// The value of a text. Errors say what is wrong and at which line and column, for the caller to put the file's name
/// before: "a syntax error at line 3, column 17".
Result<nlohmann::json> parseJson(std::string_view text);
/// The same with the fields of objects in the text's order.
Result<nlohmann::ordered_json> parseOrderedJson(std::string_view text);

} // namespace mt
#endif
