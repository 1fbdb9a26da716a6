// Between the command line of training and recipe files: what a file says as words for the same parser, and what was
// said as options for a file. Part of CommandLine.cpp; knows no option but the plan.
#ifndef MT_RUNTIME_TRAIN_RECIPEWORDS_H
#define MT_RUNTIME_TRAIN_RECIPEWORDS_H

#include "runtime/base/Status.h"
#include "runtime/train/Options.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace mt::train {

/// The plan among the parser's options.
inline const std::string kPlanOption = "PLAN.bin";

/// Options that exclude each other: on the command line one of them overrides the other in a recipe.
struct Exclusive {
  const char *one, *other, *message;
};
inline constexpr Exclusive kExclusive[] = {
    {"--resume", "--overwrite", "--resume goes on with the run that --overwrite would replace: say one of them"},
    {"--steps", "--epochs", "--steps and --epochs exclude each other"},
    {"--eval-split", "--eval-data", "--eval-split and --eval-data exclude each other"}};

/// The words of a recipe file, but for what the command line that `app` has read says itself or excludes. Errors: as of
/// readRecipeFile(); a key that is no option, a value where there is none or the other way around; the command line is
/// not one of training.
Result<std::vector<std::string>> recipeWords(const CLI::App &app, const std::string &file);

/// What was said of training, but for what concerns one run alone: where it begins, how it is watched.
std::vector<SaidOption> saidOptions(const CLI::App &app);

} // namespace mt::train
#endif
