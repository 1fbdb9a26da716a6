// Corpora made of others, of which they copy nothing: several as one, some rows of one.
#ifndef MT_RUNTIME_TRAIN_CORPUSVIEWS_H
#define MT_RUNTIME_TRAIN_CORPUSVIEWS_H

#include "runtime/train/Corpus.h"
#include "runtime/train/RowSplit.h"

namespace mt::train {

/// Views share what they look at.
using SharedCorpus = std::shared_ptr<const Corpus>;

/// Rows of several corpora, one after the other.
std::unique_ptr<Corpus> concatenate(std::vector<SharedCorpus> parts);
/// The rows of a corpus that are held back, or those that are kept, in their order.
SharedCorpus heldBackOf(SharedCorpus corpus, const RowSplit &split);
SharedCorpus keptOf(SharedCorpus corpus, const RowSplit &split);

} // namespace mt::train
#endif
