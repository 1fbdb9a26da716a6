// Documents to tokens, on several threads, in an order that does not depend on them: the tokens of a document, and
// behind each the token that ends a text where the tokenizer has one; before a sample what the tokenizer puts before a
// sequence. Between text on disk and corpora or mtrun tokenize.
#ifndef MT_RUNTIME_TRAIN_ENCODEDOCUMENTS_H
#define MT_RUNTIME_TRAIN_ENCODEDOCUMENTS_H

#include "runtime/tokenizer/Tokenizer.h"
#include "runtime/train/TextDocuments.h"

#include <functional>

namespace mt::train {

struct EncodedDocument {
  std::vector<uint32_t> tokens;
  std::vector<bool> counts; ///< of each, as a target
};
/// Takes the tokens of a document.
using PutTokens = std::function<Status(size_t document, const EncodedDocument &encoded)>;

/// Calls put() for every document in order, from this thread. Holds the tokens of some megabytes of text for each of
/// `threads` (0: as many as the machine has cores), or of one document that is longer. Warns where bytes are not UTF-8.
/// Errors: those of the first document that has one, or of put().
Status encodeDocuments(const TextDocuments &documents, const tokenizer::Tokenizer &tokenizer, uint64_t threads,
                       const PutTokens &put);

} // namespace mt::train
#endif
