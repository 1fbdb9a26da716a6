// What makes text of tokens: the "decoder" of a tokenizer.json.
#ifndef MT_RUNTIME_TOKENIZER_DECODER_H
#define MT_RUNTIME_TOKENIZER_DECODER_H

#include "runtime/tokenizer/Fields.h"
#include "runtime/tokenizer/Scratch.h"

#include <memory>

namespace mt::tokenizer {

class Decoder {
public:
  virtual ~Decoder() = default;
  /// Changes the texts of tokens, joins or takes away some. What they make together is the text.
  virtual void run(std::vector<std::string> &texts, RegexMemory &memory) const = 0;
};

using DecoderPtr = std::unique_ptr<Decoder>;

/// Of which a Sequence becomes several. Errors name what is wrong or not supported.
Status readDecoders(const Fields &fields, std::vector<DecoderPtr> &all);

} // namespace mt::tokenizer
#endif
