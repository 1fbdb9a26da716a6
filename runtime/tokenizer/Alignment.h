// Where in a normalized text each of its tokens ends, found by their forms: bytes in GPT-2's alphabet, names of bytes,
// spaces written as another character, parts of words. Knows no ids; chats need it to tell whose tokens are whose.
#ifndef MT_RUNTIME_TOKENIZER_ALIGNMENT_H
#define MT_RUNTIME_TOKENIZER_ALIGNMENT_H

#include "runtime/base/Status.h"

#include <span>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

/// Ends in bytes, ascending; a token of something that the text does not have, such as a space put before it, ends
/// where it begins. Errors: a token's form is not what the text goes on with.
Result<std::vector<size_t>> alignTokens(std::string_view text, std::span<const std::string_view> forms);

} // namespace mt::tokenizer
#endif
