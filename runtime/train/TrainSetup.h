// Everything of a training run that can be checked before memory is reserved: the plan, the options against it, the
// data, the number of steps, the folder. Trainer.cpp goes on from
// here; a dry run does not.
#ifndef MT_RUNTIME_TRAIN_TRAINSETUP_H
#define MT_RUNTIME_TRAIN_TRAINSETUP_H

#include "runtime/train/Batches.h"
#include "runtime/train/Checkpoint.h"
#include "runtime/train/Options.h"

namespace mt::train {

struct TrainSetup {
  TrainOptions options; ///< defaults that depend on the plan filled in: out, metrics, rate.steps
  plan::Plan plan;
  std::unique_ptr<Corpus> corpus, evalCorpus; ///< the second may be null; both where a dry run names no data
  int64_t steps = 0;                          ///< of the whole run
  std::optional<std::string> checkpoint;      ///< where to go on from
  CheckpointMeta start;                       ///< of that checkpoint, else of step 0

  /// On the heap: the corpora refer to the plan.
  static Result<std::unique_ptr<TrainSetup>> check(const TrainOptions &options);
};

/// What a dry run prints: model, bytes of every space, data, steps.
std::string describe(const TrainSetup &setup);

/// Elements of all trainable parameters.
int64_t trainableElements(const plan::Plan &plan);

/// Opens evaluation data; an error if nothing in it could be evaluated.
Result<std::unique_ptr<Corpus>> openEvalCorpus(const DataOptions &data, const plan::Plan &plan);

/// Every weight file that the plan names is there and long enough.
Status checkWeightFiles(const plan::Plan &plan);

} // namespace mt::train
#endif
