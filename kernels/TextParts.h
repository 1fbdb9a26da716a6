// Reading calls and expressions from text, part by part. Private to kernels/.
#ifndef MT_KERNELS_TEXTPARTS_H
#define MT_KERNELS_TEXTPARTS_H

#include <algorithm>
#include <charconv>
#include <string_view>

namespace mt::kernels {

/// What stands before `mark`, which is dropped; all that is left where there is none.
inline std::string_view upTo(std::string_view mark, std::string_view &text) {
  const size_t end = std::min(text.find(mark), text.size());
  const std::string_view found = text.substr(0, end);
  text.remove_prefix(std::min(end + mark.size(), text.size()));
  return found;
}

template <typename Number> bool readNumber(std::string_view text, Number &into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc() && end == text.data() + text.size();
}

} // namespace mt::kernels
#endif
