// What makes ids of a word: the "model" of a tokenizer.json. Knows neither what cut the word out nor what stands around
// it.
#ifndef MT_RUNTIME_TOKENIZER_MODEL_H
#define MT_RUNTIME_TOKENIZER_MODEL_H

#include "runtime/tokenizer/Fields.h"
#include "runtime/tokenizer/Scratch.h"
#include "runtime/tokenizer/Vocabulary.h"

#include <memory>

namespace mt::tokenizer {

class Model {
public:
  virtual ~Model() = default;
  /// Appends the ids of a word that is not empty. Errors: it has no token, and the model none for what it does not
  /// know.
  virtual Status encode(std::string_view word, Scratch &scratch, std::vector<uint32_t> &ids) const = 0;
  /// Bytes at the head of a text whose ids do not depend on what follows, nor those of the rest on them: 1 or more.
  virtual size_t apart(std::string_view text) const { return text.size(); }
  virtual std::optional<uint32_t> unknown() const = 0;

  const Vocabulary &vocabulary() const { return tokens; }

protected:
  Vocabulary tokens;
};

using ModelPtr = std::unique_ptr<Model>;

/// The "model" of a tokenizer.json. Errors name what is wrong or not supported.
Result<ModelPtr> readModel(const Fields &fields);
Result<ModelPtr> readBpe(const Fields &fields);
Result<ModelPtr> readUnigram(const Fields &fields);
Result<ModelPtr> readWordPiece(const Fields &fields);
Result<ModelPtr> readWordLevel(const Fields &fields);

/// The field "vocab", an object of tokens and their ids.
Status readVocabulary(const Fields &fields, Vocabulary &tokens);

/// "<0x0A>": what a byte is called where characters fall back to bytes.
std::string byteToken(uint8_t byte);
/// The byte of such a name.
std::optional<uint8_t> byteOf(std::string_view token);

} // namespace mt::tokenizer
#endif
