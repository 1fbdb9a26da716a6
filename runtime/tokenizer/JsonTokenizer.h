// The tokenizer of a tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder, as
// Hugging Face's package tokenizers runs them.
#ifndef MT_RUNTIME_TOKENIZER_JSONTOKENIZER_H
#define MT_RUNTIME_TOKENIZER_JSONTOKENIZER_H

#include "runtime/tokenizer/Tokenizer.h"

namespace mt::tokenizer {

/// Opens a tokenizer.json. `configuration`: a tokenizer_config.json that names its special tokens, or empty. Errors
/// name the file.
Result<std::unique_ptr<Tokenizer>> openJsonTokenizer(const std::string &path, const std::string &configuration);

} // namespace mt::tokenizer
#endif
