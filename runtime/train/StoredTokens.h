// Tokens in memory, two bytes each or four. Internal to corpora of encoded text.
#ifndef MT_RUNTIME_TRAIN_STOREDTOKENS_H
#define MT_RUNTIME_TRAIN_STOREDTOKENS_H

#include "runtime/base/Status.h"
#include "runtime/train/TokenHeader.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace mt::train {

struct StoredTokens {
  explicit StoredTokens(uint32_t vocabulary) : width(tokenWidth(vocabulary)) {}

  int width;
  std::vector<std::byte> bytes;

  int64_t count() const { return static_cast<int64_t>(bytes.size()) / width; }
  void append(std::span<const uint32_t> tokens) {
    size_t at = bytes.size();
    bytes.resize(at + tokens.size() * static_cast<size_t>(width));
    for (size_t i = 0; i < tokens.size(); ++i) // little-endian: the low bytes come first
      std::memcpy(bytes.data() + at + i * static_cast<size_t>(width), &tokens[i], static_cast<size_t>(width));
  }
  int64_t operator[](int64_t index) const {
    uint32_t token = 0;
    std::memcpy(&token, bytes.data() + index * width, static_cast<size_t>(width));
    return token;
  }
};

/// An error where a token is none of a model's.
inline Status checkVocabulary(std::span<const uint32_t> tokens, int64_t vocabulary, const std::string &tokenizer) {
  const auto bad = std::ranges::find_if(tokens, [&](uint32_t id) { return vocabulary > 0 && id >= vocabulary; });
  return bad == tokens.end() ? Status()
                             : fail("token {} of --tokenizer {} is outside the model's vocabulary of {}: it belongs to "
                                    "another model",
                                    *bad, tokenizer, vocabulary);
}

} // namespace mt::train
#endif
