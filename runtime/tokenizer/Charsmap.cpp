#include "runtime/tokenizer/Charsmap.h"

#include "runtime/base/Utf8.h"

#include <cstring>

namespace mt::tokenizer {
namespace {

// A unit's bits, after Darts-clone: a leaf holds a value in its low 31; any other the label of the way to it (0-7),
// whether a leaf hangs on it (8), and how far its children are (10-30, in steps of 256 where bit 9 is set).
uint32_t labelOf(uint32_t unit) { return unit & ((uint32_t(1) << 31) | 0xff); }
bool hasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t offsetOf(uint32_t unit) { return (unit >> 10) << ((unit & (1 << 9)) >> 6); }
uint32_t valueOf(uint32_t unit) { return unit & ((uint32_t(1) << 31) - 1); }

/// Whether a character may begin at `at`; what is damaged may point elsewhere.
bool isBoundary(std::string_view text, size_t at) {
  return at >= text.size() || (static_cast<uint8_t>(text[at]) & 0xc0) != 0x80;
}

} // namespace

Result<Charsmap> Charsmap::read(std::string_view bytes) {
  Charsmap map;
  uint32_t size = 0;
  if (bytes.size() < sizeof(size))
    return fail("a map of characters of {} bytes is cut short", bytes.size());
  std::memcpy(&size, bytes.data(), sizeof(size));
  bytes.remove_prefix(sizeof(size));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > bytes.size())
    return fail("a map of characters with a trie of {} bytes, and {} are there, is damaged", size, bytes.size());
  map.units.resize(size / sizeof(uint32_t));
  std::memcpy(map.units.data(), bytes.data(), size);
  map.replacements = bytes.substr(size);
  if (!isUtf8(map.replacements))
    return fail("a map of characters whose replacements are not UTF-8 is damaged");
  map.replacements += '\0';
  return map;
}

std::optional<Charsmap::Found> Charsmap::find(std::string_view text, bool longest) const {
  size_t node = offsetOf(units[0]);
  std::optional<Found> found;
  for (size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (node >= units.size() || labelOf(units[node]) != byte)
      break;
    bool leaf = hasLeaf(units[node]);
    node ^= offsetOf(units[node]);
    if (!leaf || node >= units.size() || valueOf(units[node]) >= replacements.size() ||
        !isBoundary(replacements, valueOf(units[node])) || !isBoundary(text, i + 1))
      continue;
    found = Found{i + 1, std::string_view(replacements.c_str() + valueOf(units[node]))};
    if (!longest)
      break;
  }
  return found;
}

} // namespace mt::tokenizer
