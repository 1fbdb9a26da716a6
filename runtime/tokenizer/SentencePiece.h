// The tokenizer of a SentencePiece .model, Unigram or BPE. Our own reader: Debian's library brings a second, older copy
// of Protocol Buffers under the same names, and a process with both goes wrong.
#ifndef MT_RUNTIME_TOKENIZER_SENTENCEPIECE_H
#define MT_RUNTIME_TOKENIZER_SENTENCEPIECE_H

#include "runtime/tokenizer/Tokenizer.h"

namespace mt::tokenizer {

/// Errors name the file and what in it is wrong, or is not supported.
Result<std::unique_ptr<Tokenizer>> openSentencePiece(const std::string &path);

} // namespace mt::tokenizer
#endif
