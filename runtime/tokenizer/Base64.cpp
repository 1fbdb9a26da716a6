#include "runtime/tokenizer/Base64.h"

#include <cstdint>

namespace mt::tokenizer {

std::optional<std::string> fromBase64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0)
    return std::nullopt;
  while (text.ends_with('=') && text.size() % 4 != 2)
    text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos)
      return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 != 0)
      bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)));
  }
  return bytes;
}

} // namespace mt::tokenizer
