#include "runtime/tokenizer/ByteLevel.h"

#include "runtime/tokenizer/Unicode.h"

#include <array>

namespace mt::tokenizer {
namespace {

/// What is printable in Latin-1 stands for itself, the others in order for what comes from U+0100 on.
struct Alphabet {
  std::array<uint16_t, 256> characters = {};
  std::array<int16_t, 512> bytes = {};

  constexpr Alphabet() {
    bytes.fill(-1);
    uint16_t next = 256;
    for (uint16_t byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
      characters[byte] = printable ? byte : next++;
      bytes[characters[byte]] = static_cast<int16_t>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

} // namespace

void toByteLevel(std::string_view text, std::string &to) {
  to.resize(2 * text.size());
  char *end = to.data();
  for (char byte : text) {
    uint16_t c = kAlphabet.characters[static_cast<uint8_t>(byte)];
    if (c < 0x80) {
      *end++ = static_cast<char>(c);
    } else {
      *end++ = static_cast<char>(0xc0 | c >> 6);
      *end++ = static_cast<char>(0x80 | (c & 0x3f));
    }
  }
  to.resize(static_cast<size_t>(end - to.data()));
}

std::optional<uint8_t> fromByteLevel(char32_t character) {
  int byte = character < kAlphabet.bytes.size() ? kAlphabet.bytes[character] : -1;
  return byte < 0 ? std::nullopt : std::optional(static_cast<uint8_t>(byte));
}

} // namespace mt::tokenizer
