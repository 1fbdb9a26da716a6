#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace mt {
namespace {

/// "line 3, column 17" of a byte's offset.
std::string placeOf(std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, offset);
  size_t line = before.rfind('\n'), column = line == std::string_view::npos ? before.size() : before.size() - line - 1;
  return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1, column + 1);
}

/// Offset of the first bracket that opens a level too many, or nothing. Counts brackets outside strings; what is not
/// JSON otherwise is the parser's to find.
std::optional<size_t> firstTooDeep(std::string_view text) {
  int64_t depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char one = text[i];
    if (inString) {
      i += one == '\\';
      inString = one != '"';
    } else if (one == '"') {
      inString = true;
    } else if (one == '[' || one == '{') {
      if (++depth > kDeepestJson)
        return i;
    } else if (one == ']' || one == '}') {
      --depth;
    }
  }
  return std::nullopt;
}

template <typename Json> Result<Json> parse(std::string_view text) {
  if (std::optional<size_t> deep = firstTooDeep(text))
    return fail("it nests deeper than {} levels at {}", kDeepestJson, placeOf(text, *deep));
  try {
    return Json::parse(text);
  } catch (const typename Json::parse_error &error) {
    return fail("a syntax error at {}", placeOf(text, std::min(text.size(), error.byte > 0 ? error.byte - 1 : 0)));
  } catch (const typename Json::exception &) {
    return fail("it holds a number that is too large");
  }
}

} // namespace

Result<nlohmann::json> parseJson(std::string_view text) { return parse<nlohmann::json>(text); }
Result<nlohmann::ordered_json> parseOrderedJson(std::string_view text) { return parse<nlohmann::ordered_json>(text); }

} // namespace mt
