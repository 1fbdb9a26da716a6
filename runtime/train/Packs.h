// Sequences that share rows. Of a stream's windows: each document is a segment of its own. Of samples: one after another in a row of the plan's sequence, each with positions of its own, as a
// segment of its own that attention does not leave, so that a loss is that of the samples apart. Which share one is a
// pure function of the corpus and the sequence. Needs a model that takes segments: mtc compile --pack.
#ifndef MT_RUNTIME_TRAIN_PACKS_H
#define MT_RUNTIME_TRAIN_PACKS_H

#include "runtime/train/CorpusViews.h"

namespace mt::train {

/// What went where.
struct Packing {
  int64_t samples = 0, rows = 0;
  int64_t filled = 0;  ///< places of the rows
  int64_t windows = 0; ///< of streams, which keep documents apart
  int64_t mixed = 0;   ///< rows of corpora that stay as they are
};

/// The samples of a corpus in as few rows as a simple rule finds. Of a stream the same windows, in which a document is a
/// sequence from 0 on, also where the window begins within it, and the token that ends it has no target; of streams
/// that do not know it, and of arrays, what is full is returned as it is, and adds nothing to `packing`. `name`: of the corpus, for messages. Errors: the plan has no segments, or inputs
/// that do not go along the sequence.
Result<SharedCorpus> packed(SharedCorpus samples, const std::string &name, const plan::Plan &plan, Packing &packing);

} // namespace mt::train
#endif
