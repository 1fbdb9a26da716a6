// Bytes out of base64 (RFC 4648), as a tokenizer.json holds its map of characters.
#ifndef MT_RUNTIME_TOKENIZER_BASE64_H
#define MT_RUNTIME_TOKENIZER_BASE64_H

#include <optional>
#include <string>
#include <string_view>

namespace mt::tokenizer {

/// The bytes, or nothing where the text is no base64.
std::optional<std::string> fromBase64(std::string_view text);

} // namespace mt::tokenizer
#endif
