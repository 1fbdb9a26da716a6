#include "runtime/train/JsonLine.h"

#include "runtime/base/Json.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace mt::train {

namespace dom = simdjson::dom;

std::vector<JsonLine> jsonLines(std::string_view text) {
  std::vector<JsonLine> lines;
  int64_t number = 0;
  for (size_t at = text.starts_with("\xef\xbb\xbf") ? 3 : 0; at < text.size();) { // a byte order mark is no JSON
    size_t end = std::min(text.find('\n', at), text.size());
    ++number;
    if (text.substr(at, end - at).find_first_not_of(" \t\r") != std::string_view::npos)
      lines.push_back({at, end - at, number});
    at = end + 1;
  }
  return lines;
}

Result<dom::object> parseJsonLine(std::string_view line) {
  thread_local dom::parser parser; // keeps its buffers from line to line
  dom::object object;
  if (auto error = parser.parse(line.data(), line.size()).get(object)) {
    Result<nlohmann::json> parsed = parseJson(line); // says where
    return fail("not a JSON object on one line: {}", !parsed               ? parsed.status().message()
                                                     : parsed->is_object() ? simdjson::error_message(error)
                                                                           : "it is something else");
  }
  return object;
}

} // namespace mt::train
