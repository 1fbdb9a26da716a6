// A short text that tells whether data are those a run was trained on, by the content of their files, whatever the names:
// every byte of the first 512 MiB, which take a tenth of a second where they are in memory; beyond, sizes and samples, so
// that a change between those goes unseen.
#ifndef MT_RUNTIME_TRAIN_DATAFINGERPRINT_H
#define MT_RUNTIME_TRAIN_DATAFINGERPRINT_H

#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace mt::train {

/// Of the corpus at `path`, a file or a folder, and of the tokenizer's files unless its path is empty.
Result<std::string> dataFingerprint(const std::string &path, const std::string &tokenizer);
/// Of several corpora; of one it is its own.
std::string joinFingerprints(const std::vector<std::string> &all);
/// Of a tokenizer's files alone.
Result<std::string> tokenizerFingerprint(const std::string &tokenizer);

} // namespace mt::train
#endif
