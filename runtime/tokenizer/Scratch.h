// What encoding a text needs of memory: one for each thread that encodes, kept from text to text.
#ifndef MT_RUNTIME_TOKENIZER_SCRATCH_H
#define MT_RUNTIME_TOKENIZER_SCRATCH_H

#include "runtime/tokenizer/Regex.h"
#include "runtime/tokenizer/WordCache.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mt::tokenizer {

/// A piece of a word while Bpe puts it together; all that is left stand in a row by `next`.
struct Symbol {
  uint32_t id, previous, next;
  bool gone;
};
/// A pair that may be joined.
struct Join {
  uint32_t rank, place, id;
};
/// The best way to the end of a piece, in Unigram.
struct BestEnd {
  double score;
  uint32_t id, begin;
};

struct Scratch {
  RegexMemory regex;
  WordCache words;
  std::vector<std::string> buffers; ///< one for each pre-tokenizer that changes text
  std::string normal, other;        ///< of normalizers
  std::vector<Symbol> symbols;
  std::vector<Join> joins;
  std::vector<uint32_t> ranks;
  std::vector<BestEnd> ends;
  Status failure; ///< of what returns no Status, the first

  /// Keeps the first failure; false.
  bool fails(Status status) {
    if (failure.ok())
      failure = std::move(status);
    return false;
  }
};

} // namespace mt::tokenizer
#endif
