// BPE as SentencePiece has it: two neighbours whose texts together are a piece may be joined, the piece of the best
// score first. Here as pairs of numbers and ranks (Merging.h): of pieces, and of characters that occur in pieces.
#ifndef MT_RUNTIME_TOKENIZER_SENTENCEPIECEMERGING_H
#define MT_RUNTIME_TOKENIZER_SENTENCEPIECEMERGING_H

#include "runtime/tokenizer/Merging.h"
#include "runtime/tokenizer/Vocabulary.h"

namespace mt::tokenizer {

class SentencePieceMerging {
public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// Once, with the pieces that texts may become, their ids and scores.
  struct Piece {
    std::string_view text;
    uint32_t id;
    float score;
  };
  Status build(std::vector<Piece> pieces);

  /// Calls put(text, id) for the pieces of a word, in order; the id is kNone for a character that is none.
  template <typename Put> void run(std::string_view word, Scratch &scratch, Put put) const {
    std::vector<uint32_t> row;
    fill(word, row);
    mergePairs(pairs, scratch, row, 0);
    for (size_t at = 0; uint32_t symbol : row) {
      size_t length = symbol == kNone ? lengthAt(word, at) : lengths[symbol];
      put(word.substr(at, length), symbol == kNone ? kNone : ids[symbol]);
      at += length;
    }
  }

private:
  void fill(std::string_view word, std::vector<uint32_t> &row) const;
  static size_t lengthAt(std::string_view word, size_t at);
  Status number(std::string_view text, uint32_t id);

  Vocabulary symbols;                 ///< texts and their numbers
  std::vector<uint32_t> ids, lengths; ///< by number; bytes
  PairTable pairs;
};

} // namespace mt::tokenizer
#endif
