// Reading a corpus as training does, for the targets of its forms: a language model whose sizes and types the input
// chooses, and every row of the corpus.
#ifndef MT_TESTS_FUZZ_CORPORA_H
#define MT_TESTS_FUZZ_CORPORA_H

#include "runtime/train/CorpusForms.h"
#include "tests/fuzz/Bytes.h"

namespace mt::fuzz {

/// Inputs of a model: tokens, perhaps labels, perhaps others, of types and sizes that three bytes choose.
plan::Plan chosenPlan(Bytes &bytes);

/// Reads and checks the first few thousand rows, if `corpus` is one; errors end it.
void readAll(Result<train::CorpusPtr> corpus, const plan::Plan &plan);

} // namespace mt::fuzz
#endif
