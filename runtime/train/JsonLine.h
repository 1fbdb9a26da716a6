// Lines of .jsonl, one JSON object each: where they lie in a file, and the object of one.
#ifndef MT_RUNTIME_TRAIN_JSONLINE_H
#define MT_RUNTIME_TRAIN_JSONLINE_H

#include "runtime/base/Status.h"

#include <simdjson.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace mt::train {

struct JsonLine {
  size_t begin, length; ///< bytes within the text
  int64_t number;       ///< counted from 1, blank lines included
};

/// Lines of a text that are not blank, without the byte order mark that it may begin with.
std::vector<JsonLine> jsonLines(std::string_view text);

/// The object that a line is; it lives until the same thread parses another. Errors: the line is no object.
Result<simdjson::dom::object> parseJsonLine(std::string_view line);

} // namespace mt::train
#endif
