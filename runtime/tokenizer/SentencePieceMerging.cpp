#include "runtime/tokenizer/SentencePieceMerging.h"

#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <utility>

namespace mt::tokenizer {

size_t SentencePieceMerging::lengthAt(std::string_view word, size_t at) { return lengthOf(word[at]); }

Status SentencePieceMerging::number(std::string_view text, uint32_t id) {
  if (symbols.find(text))
    return Status();
  MT_TRY(symbols.add(text, ids.size()));
  ids.push_back(id);
  lengths.push_back(static_cast<uint32_t>(text.size()));
  return Status();
}

Status SentencePieceMerging::build(std::vector<Piece> pieces) {
  std::ranges::stable_sort(pieces, std::greater(), &Piece::score);
  for (const Piece &piece : pieces)
    MT_TRY(number(piece.text, piece.id));
  for (const Piece &piece : pieces)
    for (size_t at = 0, length = 0; at < piece.text.size(); at += length) {
      length = lengthOf(piece.text[at]);
      MT_TRY(number(piece.text.substr(at, length), kNone));
    }
  std::vector<PairTable::Entry> entries;
  uint32_t rank = 0;
  for (size_t n = 0; n < pieces.size(); ++n) {
    const std::string_view text = pieces[n].text;
    rank += n > 0 && pieces[n].score != pieces[n - 1].score ? 1 : 0; // equal scores: the leftmost first
    for (size_t at = lengthOf(text[0]); at < text.size(); at += lengthOf(text[at])) {
      std::optional<uint32_t> left = symbols.find(text.substr(0, at)), right = symbols.find(text.substr(at));
      if (left && right)
        entries.push_back({*left, *right, rank, static_cast<uint32_t>(n)});
    }
  }
  pairs = PairTable(entries.size());
  for (const PairTable::Entry &entry : entries)
    pairs.put(entry);
  return Status();
}

void SentencePieceMerging::fill(std::string_view word, std::vector<uint32_t> &row) const {
  for (size_t at = 0, length = 0; at < word.size(); at += length) {
    length = lengthOf(word[at]);
    row.push_back(symbols.find(word.substr(at, length)).value_or(kNone));
  }
}

} // namespace mt::tokenizer
