// Text to tokens and back, as the file of a tokenizer says: SentencePiece's .model, or tokenizer.json of Hugging Face's
// tokenizers. Knows no corpora and no plans: runtime/train reads text with it. What is supported: docs/tokenizers.md.
#ifndef MT_RUNTIME_TOKENIZER_TOKENIZER_H
#define MT_RUNTIME_TOKENIZER_TOKENIZER_H

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

/// Ids that the files name; what they do not name is nothing.
struct SpecialTokens {
  std::optional<uint32_t> begin, end, padding, unknown;
};

class Tokenizer {
public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of a text. Bytes that are not UTF-8 count as U+FFFD, one for each longest beginning of a
  /// character. `addSpecial`: with what the file puts before and after a sequence. Several threads may encode at once.
  /// Errors: a regular expression gave up, the text has what the tokenizer has no token for.
  virtual Status encode(std::string_view text, bool addSpecial, std::vector<uint32_t> &ids) const = 0;
  /// The same without special tokens, of UTF-8; `tokens` receives for each of these places of the text, ascending bytes
  /// where characters begin, the number among all of `ids` of the token that has it, or of the next one where none
  /// does. Errors: those of encode(); the tokenizer's tokens cannot be found in a text again.
  virtual Status encodeLocating(std::string_view text, std::span<const size_t> places, std::vector<uint32_t> &ids,
                                std::vector<size_t> &tokens) const = 0;
  /// The text of ids; those that are no token give nothing, nor do special ones with `skipSpecial`.
  virtual std::string decode(std::span<const uint32_t> ids, bool skipSpecial) const = 0;
  /// One more than the largest id.
  virtual uint32_t vocabularySize() const = 0;
  /// The id of a token as it stands in the file.
  virtual std::optional<uint32_t> find(std::string_view token) const = 0;

  const SpecialTokens &special() const { return specialTokens; }

protected:
  SpecialTokens specialTokens;
};

/// The files that the tokenizer at `path` consists of: a .model, a tokenizer.json, or those of a folder that holds one
/// of them, tokenizer.json before any .model, with its configuration and its chat template. Errors: there is none, or
/// several .model.
Result<std::vector<std::string>> tokenizerFiles(const std::string &path);

/// Opens it. Errors name the file and what in it is wrong, or is not supported.
Result<std::unique_ptr<Tokenizer>> openTokenizer(const std::string &path);

} // namespace mt::tokenizer
#endif
