// A recipe file: TOML that says what the command line of training says, a key for each option. Read and written as
// words: which options there are and what they take, CommandLine.h knows. What a run used is one, too (Recipe.h).
#ifndef MT_RUNTIME_TRAIN_RECIPEFILE_H
#define MT_RUNTIME_TRAIN_RECIPEFILE_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

#include <string>
#include <vector>

namespace mt::train {

/// What a file says, in its order: truth as a flag, each entry of an array as a word. Errors name file and line: it
/// cannot be read, is larger than 1 MiB, or as of RecipeReader.h.
Result<std::vector<SaidOption>> readRecipeFile(const std::string &path);

/// Such a file of options. Reading it gives the same ones, if no two have the same key.
std::string recipeFileText(const std::vector<SaidOption> &options);

} // namespace mt::train
#endif
