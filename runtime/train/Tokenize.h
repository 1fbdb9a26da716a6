// mtrun tokenize: a corpus of text, by a tokenizer, to a folder of tokens (TokenFolder.h). The result does not depend
// on the number of threads.
#ifndef MT_RUNTIME_TRAIN_TOKENIZE_H
#define MT_RUNTIME_TRAIN_TOKENIZE_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

namespace mt::train {

/// Prints a line for people that goes on while it runs, on a terminal, and what came out. Errors name file and line; no
/// folder remains then.
Status tokenize(const TokenizeOptions &options);

} // namespace mt::train
#endif
