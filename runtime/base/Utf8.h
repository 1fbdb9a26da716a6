// Whether bytes are UTF-8 text (RFC 3629). No conversion, no classes of letters.
#ifndef MT_RUNTIME_BASE_UTF8_H
#define MT_RUNTIME_BASE_UTF8_H

#include <cstddef>
#include <optional>
#include <string_view>

namespace mt {

/// Offset of the first byte that is not UTF-8, or nothing.
std::optional<size_t> firstBadByte(std::string_view text);

inline bool isUtf8(std::string_view text) { return !firstBadByte(text); }

} // namespace mt
#endif
