// What cuts a normalized text into the words that a model encodes, one word after the other. Pieces go from one
// pre-tokenizer to the next as they come; none is kept.
#ifndef MT_RUNTIME_TOKENIZER_PRETOKENIZER_H
#define MT_RUNTIME_TOKENIZER_PRETOKENIZER_H

#include "runtime/tokenizer/Fields.h"
#include "runtime/tokenizer/Scratch.h"

#include <memory>

namespace mt::tokenizer {

struct TextPiece {
  std::string_view text;
  bool first = false; ///< begins where the text to encode begins
};

/// Where pieces go. Refers to a function; does not own it.
class Sink {
public:
  template <typename Function>
  Sink(Function &function) // NOLINT: it is meant to convert
      : object(&function),
        call([](void *object, TextPiece piece) { return (*static_cast<Function *>(object))(piece); }) {}
  bool operator()(TextPiece piece) const { return call(object, piece); }

private:
  void *object;
  bool (*call)(void *, TextPiece);
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  /// Gives the parts of a piece to `sink`, the empty ones too, until it returns false; false where it did, or with the
  /// error in scratch.failure.
  virtual bool run(TextPiece piece, Scratch &scratch, const Sink &sink) const = 0;
};

using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

/// The "pre_tokenizer" of a tokenizer.json, of which a Sequence becomes several. Those that change text use the buffers
/// of Scratch from `buffers` on, which moves on. Errors name what is wrong or not supported.
Status readPreTokenizers(const Fields &fields, std::vector<PreTokenizerPtr> &all, size_t &buffers);

} // namespace mt::tokenizer
#endif
