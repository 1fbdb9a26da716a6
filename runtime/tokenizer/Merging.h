// The one loop of BPE: of a row of ids, the pair of the lowest rank is joined, the leftmost of equal ones, until none
// is left to join. Few ids in a plain row, many by a queue, so that long runs take n log n.
#ifndef MT_RUNTIME_TOKENIZER_MERGING_H
#define MT_RUNTIME_TOKENIZER_MERGING_H

#include "runtime/tokenizer/PairTable.h"
#include "runtime/tokenizer/Scratch.h"

namespace mt::tokenizer {

/// Joins the ids from `begin` on, in place.
void mergePairs(const PairTable &pairs, Scratch &scratch, std::vector<uint32_t> &ids, size_t begin);

} // namespace mt::tokenizer
#endif
