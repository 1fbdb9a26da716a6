// Everything of a training run that can be checked before memory is reserved: the plan, the options against it, the
// data, the folder and where in it the run begins, the recipe. Trainer.cpp goes on from here; a dry run does not.
#ifndef MT_RUNTIME_TRAIN_TRAINSETUP_H
#define MT_RUNTIME_TRAIN_TRAINSETUP_H

#include "runtime/train/Batches.h"
#include "runtime/train/Continuation.h"
#include "runtime/train/Ranks.h"
#include "runtime/train/Recipe.h"
#include "runtime/train/RunFolder.h"
#include "runtime/train/TrainData.h"

namespace mt::train {

struct TrainSetup {
  TrainOptions options; ///< defaults that depend on plan and checkpoint filled in: out, metrics, recipe
  plan::Plan plan;
  TrainData data;                             ///< empty where a dry run names none
  std::string numerics;                       ///< as CheckpointMeta has it
  std::unique_ptr<Continuation> samples;           ///< null: none are made
  std::optional<RunFolder> folder;            ///< locked, but for a dry run
  RunFolder::Start from;                      ///< where to go on from
  Recipe recipe;                              ///< that of the checkpoint, but for what the options say
  std::string changes;                        ///< what they change in it, for people; may be empty

  /// On the heap: the data refer to the plan.
  static Result<std::unique_ptr<TrainSetup>> check(const TrainOptions &options, Ranks &ranks);

private:
  Status openData();
  Status openSamples();
  Status openFolder(Ranks &ranks);
  Status openFolder();
  nlohmann::ordered_json toCompare() const;
  Status followFirst(const std::string &told);
  Status arrangeData();
  Status settleRecipe(const Ranks &ranks);
  Status checkLabels() const;
};

/// What a dry run prints: model, bytes of every space, data, steps.
std::string describe(const TrainSetup &setup);

/// Elements of all trainable parameters.
int64_t trainableElements(const plan::Plan &plan);

/// Every weight file that the plan names is there, long enough, and holds what it did when the plan was compiled;
/// `frozenAlone`: of what is not trained, as a checkpoint has the rest.
Status checkWeightFiles(const plan::Plan &plan, bool frozenAlone);

/// An option that names what is written, and what it names.
struct Output {
  const char *option;
  std::string path;
};
/// No output is what is read - the plan at `path`, what it reads of its model, `others` - part of a checkpoint, or
/// another output.
Status keepInputs(const std::string &path, const plan::Plan &plan, std::vector<InputFile> others,
                  const std::vector<Output> &outputs);
std::vector<InputFile> inputsOf(const DataOptions &data);

} // namespace mt::train
#endif
