// The recipe of a run: everything but the plan and the data that decides its weights. What the command line says of it,
// what a checkpoint has stored, and the defaults become one here; a run that goes on keeps its stored recipe.
#ifndef MT_RUNTIME_TRAIN_RECIPE_H
#define MT_RUNTIME_TRAIN_RECIPE_H

#include "kernels/Optimizers.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Program.h"
#include "runtime/train/LearningRate.h"
#include "runtime/train/Options.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mt::train {

/// What the updates of one parameter go by.
struct UpdateRecipe {
  LearningRate rate;
  double decay = 0;
  const kernels::OptimizerSpec *optimizer = nullptr; ///< null: it is frozen
  std::vector<double> hyperparameters;               ///< of the optimizer, in its order
};

/// Complete: nothing is left open.
struct Recipe {
  LearningRate rate; ///< of what is in no group, with its steps
  std::vector<UpdateRecipe> updates; ///< by parameter of the plan; of frozen ones nothing counts
  double clipNorm = 1;               ///< counts where the plan clips
  bool skipsNonFinite = false;       ///< steps whose gradient is not finite; only where the plan clips
  uint64_t seed = 0;
  bool shuffle = true;
};

/// What is said must suit the plan. Errors name the option.
Status checkRecipe(const RecipeOptions &said, const plan::Plan &plan);

/// What a checkpoint stores of a recipe: {"lr": 0.001, ...}, one member for each option that was open to choice.
nlohmann::json toJson(const RecipeOptions &all);

/// Takes over from a stored recipe what is not said. Returns what is said and differs from it, as "--lr 0.1 (was
/// 0.01)". Errors: the stored recipe is damaged.
Result<std::vector<std::string>> adoptStored(RecipeOptions &said, const nlohmann::json &stored);
/// A stored recipe as a command line says it, "--lr 0.001 --group '*.bias:decay=0'", but for groups that say an
/// optimizer, which only a plan has. Errors: as of adoptStored().
Result<std::string> asCommandLine(const nlohmann::json &stored);
/// All that decides a run, for a recipe file: plan, data and folder, what else was said, and its recipe, in which
/// nothing else is open. Groups that the plan has are left to it.
std::vector<SaidOption> usedOptions(const TrainOptions &all, const plan::Plan &plan);
/// Fills what is still open with defaults: PyTorch's, but that decay spares vectors. Groups are those of the plan. Open
/// stays --decay-steps, which follows the steps.
void fillDefaults(RecipeOptions &said, const plan::Plan &plan);
/// Of options with nothing else open, of which `said` are on the command line. Errors: values that exclude each other,
/// and groups that suit no parameter of the plan.
Result<Recipe> completeRecipe(const RecipeOptions &all, const RecipeOptions &said, const plan::Plan &plan);

} // namespace mt::train
#endif
