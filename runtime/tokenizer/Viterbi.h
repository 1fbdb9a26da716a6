// The likeliest way through a text by scored pieces (Kudo, arXiv 1804.10959): the core of Unigram models, of
// tokenizer.json and of SentencePiece alike.
#ifndef MT_RUNTIME_TOKENIZER_VITERBI_H
#define MT_RUNTIME_TOKENIZER_VITERBI_H

#include "runtime/tokenizer/Scratch.h"
#include "runtime/tokenizer/Trie.h"

namespace mt::tokenizer {

struct Viterbi {
  Trie pieces;
  std::vector<double> scores; ///< by id
  double unknownScore = 0;    ///< of one character that is no piece
  uint32_t unknownId = 0;
  bool single = false; ///< sums are rounded to 32 bits, as SentencePiece has them

  /// Fills scratch.ends so that ends[i] is the last piece of the best way to byte i of `text`. `sum`: the score of what
  /// came before; the result is that of all. The first of equal ways stays.
  double run(std::string_view text, double sum, Scratch &scratch) const;

  /// Calls put(begin, end, id) for the pieces of the best way, in order. For use after run().
  template <typename Put> void each(std::string_view text, Scratch &scratch, Put put) const {
    // The way back turned around in place: instead of its score, each end has the next one.
    std::vector<BestEnd> &ends = scratch.ends;
    for (auto end = static_cast<uint32_t>(text.size()); end != 0; end = ends[end].begin)
      ends[ends[end].begin].score = end;
    for (uint32_t begin = 0; begin < text.size();) {
      auto end = static_cast<uint32_t>(ends[begin].score);
      put(begin, end, ends[end].id);
      begin = end;
    }
  }
};

} // namespace mt::tokenizer
#endif
