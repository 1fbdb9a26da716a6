#include "runtime/base/PatternSettings.h"

#include <algorithm>

namespace mt {

Result<PatternSettings> parsePatternSettings(const std::string &text, const std::string &example,
                                             const std::string &keys) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return fail("must be PATTERN:KEY=VALUE,... such as '{}'", example);
  PatternSettings parsed{text.substr(0, colon), {}};
  for (size_t begin = colon + 1; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string setting = text.substr(begin, end - begin);
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      return fail("'{}': must be KEY=VALUE with one of the keys {}", setting, keys);
    const std::string key = setting.substr(0, equals);
    if (std::ranges::any_of(parsed.settings, [&](const auto &said) { return said.first == key; }))
      return fail("'{}' is said twice", key);
    parsed.settings.emplace_back(key, setting.substr(equals + 1));
    begin = end + 1;
  }
  return parsed;
}

} // namespace mt
