// A short text that tells whether data are those a run was trained on: sizes and samples of the files' content,
// whatever their names. Reads a few hundred kilobytes a file, so a change between the samples of a large file goes
// unseen.
#ifndef MT_RUNTIME_TRAIN_DATAFINGERPRINT_H
#define MT_RUNTIME_TRAIN_DATAFINGERPRINT_H

#include "runtime/base/Status.h"

#include <string>

namespace mt::train {

/// Of the corpus at `path`, a file or a folder, and of the tokenizer's file unless it is empty.
Result<std::string> dataFingerprint(const std::string &path, const std::string &tokenizer);

} // namespace mt::train
#endif
