// The grammar of what command lines say of tensors by name: PATTERN:KEY=VALUE,... Knows no keys and no tensors; the
// options that are written so are groups of parameters and adapters.
#ifndef MT_RUNTIME_BASE_PATTERNSETTINGS_H
#define MT_RUNTIME_BASE_PATTERNSETTINGS_H

#include "runtime/base/Status.h"

#include <string>
#include <utility>
#include <vector>

namespace mt {

struct PatternSettings {
  std::string pattern;                                       ///< a glob; names have colons, too: the last one ends it
  std::vector<std::pair<std::string, std::string>> settings; ///< keys and values, in order
};

/// `example` is what a right one looks like, `keys` those that there are, both for messages.
Result<PatternSettings> parsePatternSettings(const std::string &text, const std::string &example,
                                             const std::string &keys);

} // namespace mt
#endif
