// The text of a recipe file as options: the part of TOML 1.0 (https://toml.io/en/v1.0.0) whose values options have -
// text, numbers, truth, and arrays of text and numbers. Tables and dates are refused by name. Below RecipeFile.h.
#ifndef MT_RUNTIME_TRAIN_RECIPEREADER_H
#define MT_RUNTIME_TRAIN_RECIPEREADER_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

#include <string>
#include <string_view>
#include <vector>

namespace mt::train {

/// In the order of the text. Errors name the line: the text is no TOML, has a key twice, or a value that no option has.
Result<std::vector<SaidOption>> readRecipe(std::string_view text);

/// A number of TOML as a word of the command line: as it is written, without a plus in front and without underscores,
/// whole numbers of other bases as decimal ones. Nothing: it is none.
std::optional<std::string> numberWord(std::string_view text);

} // namespace mt::train
#endif
