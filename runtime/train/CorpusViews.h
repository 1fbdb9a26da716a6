// Corpora made of others, of which they copy nothing: several as one.
#ifndef MT_RUNTIME_TRAIN_CORPUSVIEWS_H
#define MT_RUNTIME_TRAIN_CORPUSVIEWS_H

#include "runtime/train/Corpus.h"

namespace mt::train {

/// Views share what they look at.
using SharedCorpus = std::shared_ptr<const Corpus>;

/// Rows of several corpora, one after the other.
std::unique_ptr<Corpus> concatenate(std::vector<SharedCorpus> parts);

} // namespace mt::train
#endif
