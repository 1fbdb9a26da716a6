// GPT-2's alphabet of bytes: each byte is written as a printable character, so that any bytes are a text of 256
// letters.
#ifndef MT_RUNTIME_TOKENIZER_BYTELEVEL_H
#define MT_RUNTIME_TOKENIZER_BYTELEVEL_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mt::tokenizer {

/// Where GPT-2 cuts a text into words.
inline constexpr std::string_view kByteLevelWords =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// The characters of a text's bytes, instead of what `to` held.
void toByteLevel(std::string_view text, std::string &to);
/// The byte of a character, or nothing where it stands for none.
std::optional<uint8_t> fromByteLevel(char32_t character);

} // namespace mt::tokenizer
#endif
