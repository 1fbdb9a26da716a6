// What encoding a text needs of memory: one for each thread that encodes, kept from text to text.
#ifndef MT_RUNTIME_TOKENIZER_SCRATCH_H
#define MT_RUNTIME_TOKENIZER_SCRATCH_H

#include "runtime/tokenizer/Regex.h"
#include "runtime/tokenizer/WordCache.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace mt::tokenizer {

/// A piece of a word while Bpe puts it together; all that is left stand in a row by `next`.
struct Symbol {
  uint32_t id, previous, next;
  bool gone;
};
/// Places of pairs of one rank, the leftmost first: in a row as long as they come in order, else in a heap.
struct JoinLevel {
  uint32_t rank = 0;
  bool waits = false; ///< it is among those that are not empty
  size_t done = 0;    ///< of the row
  std::vector<uint32_t> row, heap;

  bool empty() const { return done == row.size() && heap.empty(); }
  void add(uint32_t place) {
    if (row.empty() || row.back() <= place)
      return row.push_back(place);
    heap.push_back(place);
    std::push_heap(heap.begin(), heap.end(), std::greater());
  }
  uint32_t next() {
    if (heap.empty() || (done < row.size() && row[done] <= heap.front()))
      return row[done++];
    std::pop_heap(heap.begin(), heap.end(), std::greater());
    uint32_t place = heap.back();
    heap.pop_back();
    return place;
  }
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
  using Level = JoinLevel;
  std::vector<Level> levels;     ///< of ranks that occur in what Bpe puts together
  std::vector<uint32_t> levelOf; ///< their numbers, by rank
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
